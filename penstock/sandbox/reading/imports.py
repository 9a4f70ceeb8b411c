"""Resolves the imports of scripts, and refuses those that are not allowed.

Guarantees that a resolved name lies inside the folder of the script: a specifier must be relative,
free of `%`, backslashes, control characters and empty segments, and may use `..` only at its start
and only within the folder. So no two specifiers name one file in different spellings, and nothing
is resolved twice. Symlinks are checked where files are read (folder.py). Proof:
tests/sandbox/reading/test_imports.py.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from penstock.core.diagnostics import nearest
from penstock.sandbox.reading.lexer import Statement
from penstock.sandbox.reading.scan import JSON
from penstock.sandbox.script import RUNTIME

EXTENSIONS = (".mts", ".mjs", ".ts", ".js", JSON)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PACKAGE_SCHEME = re.compile(r"(node|npm|jsr):")
_BAD = re.compile(r"[%\\?#\x00-\x1f\x7f]")
_CONTROL = " "
_JSON_ATTRIBUTE = ("type", "json")


class RefusedImport(Struct, frozen=True, kw_only=True):
    """Why an import is not allowed."""

    code: str
    message: str
    suggestion: str | None = None


Resolve = Callable[[str, Statement, str], str | RefusedImport]
"""Resolves a statement of a module. The third argument is the name of the root for messages."""


def target(importer: str, statement: Statement, folder: str = "") -> str | RefusedImport:
    """Return the name of the imported module, or RUNTIME, or why the import is refused.

    `folder` is the name of the script's root for messages. The file itself is not read.
    """
    specifier = statement.specifier
    if specifier == RUNTIME:
        return RUNTIME
    return _refused_shape(specifier) or _resolved(importer, specifier, folder)


def refused_attributes(statement: Statement) -> Iterator[tuple[int, RefusedImport]]:
    """Yield the problems of the `with { ... }` of an import, each with its offset."""
    is_json = statement.specifier.endswith(JSON)
    for key, value, at in statement.attributes:
        if not (is_json and (key, value) == _JSON_ATTRIBUTE):
            said = f'import attribute "{key}" is not supported'
            yield at, RefusedImport(code="import-attribute", message=said)
    if is_json and all(key != "type" for key, _, _ in statement.attributes):
        said = f'import of "{statement.specifier}" needs with {{ type: "json" }}'
        yield statement.specifier_at, RefusedImport(code="import-json", message=said)


def missing_file(importer: str, specifier: str, names: Iterable[str]) -> RefusedImport:
    """Return the problem of a file that does not exist, with the nearest of these names."""
    specifiers = [relative(importer, name) for name in names if name != importer]
    near = nearest(specifier, [each for each in specifiers if each != specifier])
    return RefusedImport(
        code="import-missing", message=f'"{specifier}" does not exist', suggestion=_meant(near)
    )


def missing_name(
    specifier: str, name: str, exports: Iterable[str], types: Iterable[str]
) -> RefusedImport:
    """Return the problem of a name that is not exported, with the nearest export."""
    near = nearest(name, sorted(exports))
    return RefusedImport(
        code="import-name-missing",
        message=f'"{specifier}" does not export "{name}"',
        suggestion="use import type" if name in types else _meant(near),
    )


def relative(importer: str, name: str) -> str:
    """Return the specifier by which one module imports another."""
    found = posixpath.relpath(name, posixpath.dirname(importer) or ".")
    return found if found.startswith("../") else f"./{found}"


def _refused_shape(specifier: str) -> RefusedImport | None:
    """Check the text of a specifier, without resolving it."""
    if _PACKAGE_SCHEME.match(specifier):
        return RefusedImport(
            code="import-bare", message=f'package import "{specifier}" is not allowed'
        )
    if _SCHEME.match(specifier):
        return RefusedImport(
            code="import-url",
            message=f'import from a URL is not allowed: "{specifier}"',
            suggestion=_meant(RUNTIME) if specifier.startswith("flo:") else None,
        )
    if specifier.startswith("/"):
        return RefusedImport(
            code="import-absolute", message=f'absolute import "{specifier}" is not allowed'
        )
    bad = _bad_character(specifier)
    if bad is not None:
        said = f'import "{_shown(specifier)}" has a character that is not allowed: {bad}'
        return RefusedImport(code="import-bad-character", message=said)
    if specifier.split("/", 1)[0] not in {".", ".."}:
        return _bare(specifier)
    return None


def _bad_character(specifier: str) -> str | None:
    found = _BAD.search(specifier)
    if found is None:
        return "an empty segment" if "" in specifier.split("/") else None
    character = found[0]
    return f'"{character}"' if character > _CONTROL else f"U+{ord(character):04X}"


def _shown(specifier: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", "\ufffd", specifier)


def _bare(specifier: str) -> RefusedImport:
    path = specifier if specifier.endswith(EXTENSIONS) else f"{specifier}.mts"
    said = f'package import "{specifier}" is not allowed; use a relative path such as "./{path}"'
    return RefusedImport(code="import-bare", message=said)


def _resolved(importer: str, specifier: str, folder: str) -> str | RefusedImport:
    segments = specifier.split("/")
    begin = next((n for n, each in enumerate(segments) if each not in {".", ".."}), len(segments))
    if ".." in segments[begin:]:
        said = f'".." may stand only at the beginning of import "{specifier}"'
        return RefusedImport(code="import-parent", message=said)
    name = posixpath.normpath(posixpath.join(posixpath.dirname(importer), specifier))
    if name.split("/")[0] == "..":
        said = f'import "{specifier}" leads out of {folder}'
        return RefusedImport(code="import-parent", message=said)
    if not name.endswith(EXTENSIONS) or begin == len(segments):
        said = f'import "{specifier}" must end in .mts, .mjs, .ts, .js or .json'
        return RefusedImport(code="import-extension", message=said)
    return name


def _meant(near: str | None) -> str | None:
    return f'did you mean "{near}"?' if near else None
