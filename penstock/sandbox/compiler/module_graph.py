"""The module graph of one script: its entry, and every file that it imports, directly or not.

Reading stops as soon as a limit is exceeded, so a hostile graph costs at most MAX_MODULES files
and MAX_BYTES. Each file is read once. `exported` follows `export *`, also in cycles; it returns
None where a broken or missing file makes the answer uncertain, so that no false problem is
reported.

Guarantees that a resolved name (`target`) lies inside the folder of the script: a specifier must be
relative, free of `%`, backslashes, control characters and empty segments, and may use `..` only at
its start and only within the folder. So no two specifiers name one file in different spellings, and
nothing is resolved twice. Symlinks are checked where files are read (script_files.py). Proof:
tests/sandbox/compiler/test_module_graph.py.
"""

import posixpath
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, field

from penstock.core.diagnostics import nearest
from penstock.sandbox.compiler.parsers import Statement
from penstock.sandbox.compiler.scanner import JSON, ScannedFile, Scanner
from penstock.sandbox.compiler.script_files import ReadFailure
from penstock.sandbox.script import RUNTIME, RUNTIME_NAMES

EXTENSIONS = (".mts", ".mjs", ".ts", ".js", JSON)
MAX_MODULES = 256
MAX_BYTES = 4 << 20
Read = Callable[[str, int], bytes | ReadFailure]
"""Returns the content of a file; at most so many bytes."""
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
            message = f'import attribute "{key}" is not supported'
            yield at, RefusedImport(code="import-attribute", message=message)
    if is_json and all(key != "type" for key, _, _ in statement.attributes):
        message = f'import of "{statement.specifier}" needs with {{ type: "json" }}'
        yield statement.specifier_at, RefusedImport(code="import-json", message=message)


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
    path = posixpath.relpath(name, posixpath.dirname(importer) or ".")
    return path if path.startswith("../") else f"./{path}"


class Graph(Struct, kw_only=True):
    """The files of a script, by name."""

    entry: str
    scans: dict[str, ScannedFile] = field(default_factory=dict)
    links: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each module, the module (or RUNTIME) of each specifier."""
    absent: dict[str, ReadFailure] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    _exported: dict[str, frozenset[str] | None] = field(default_factory=dict)
    _declared: dict[str, tuple[set[str] | None, set[str]]] = field(default_factory=dict)

    @property
    def is_too_large(self) -> bool:
        """Whether a limit was exceeded, so that the graph is not complete."""
        return self.files > MAX_MODULES or self.bytes > MAX_BYTES

    def imports(self, name: str) -> list[Statement]:
        """Return the import statements of a module."""
        scanned = self.scans.get(name)
        return [each for each in scanned.statements if each.kind == "import"] if scanned else []

    def exported(self, name: str) -> frozenset[str] | None:
        """Return the names that a module exports, also by `export *`; None if not known."""
        if name not in self._exported:
            self._exported[name] = self._find_exported(name)
        return self._exported[name]

    def _find_exported(self, name: str) -> frozenset[str] | None:
        if name == RUNTIME:
            return frozenset(RUNTIME_NAMES)
        exports: set[str] = set()
        seen, waiting = {name}, [name]
        while waiting:
            module = waiting.pop()
            names, stars = self._declared_exports(module)
            if names is None:
                return None
            # `export *` does not pass on the default export.
            exports |= names if module == name else names - {"default"}
            waiting += stars - seen
            seen |= stars
        return frozenset(exports)

    def _declared_exports(self, name: str) -> tuple[set[str] | None, set[str]]:
        """Return the names that a module itself exports, and the modules of its `export *`."""
        if name not in self._declared:
            self._declared[name] = self._find_declared_exports(name)
        return self._declared[name]

    def _find_declared_exports(self, name: str) -> tuple[set[str] | None, set[str]]:
        if name == RUNTIME:
            return {*RUNTIME_NAMES}, set()
        scanned = self.scans.get(name)
        if scanned is None or scanned.is_broken:
            return None, set()
        specifiers = {
            scanned.statements[export.statement].specifier
            for export in scanned.exports
            if export.name is None and export.statement is not None
        }
        links = self.links[name]
        if not specifiers <= links.keys():
            return None, set()
        names = {each.name for each in scanned.exports if each.name is not None}
        return names, {links[each] for each in specifiers}


def read_graph(entry: str, read: Read, scanner: Scanner, resolve: Resolve = target) -> Graph:
    """Read the graph breadth-first, each file once, until it is complete or too large."""
    graph = Graph(entry=entry)
    waiting, known = deque([entry]), {entry}
    while waiting and not graph.is_too_large:
        name = waiting.popleft()
        _read_file(graph, name, read, scanner)
        links = graph.links[name] = {}
        for statement in graph.imports(name):
            module = resolve(name, statement, "")
            if isinstance(module, str):
                links[statement.specifier] = module
                if module != RUNTIME and module not in known:
                    known.add(module)
                    waiting.append(module)
        graph.files = len(known)
    return graph


def _read_file(graph: Graph, name: str, read: Read, scanner: Scanner) -> None:
    content = read(name, MAX_BYTES + 1)
    if isinstance(content, ReadFailure):
        graph.absent[name] = content
        return
    graph.bytes += len(content)
    # A file beyond the limit is counted and not scanned: scanning costs many times its reading.
    if graph.bytes <= MAX_BYTES:
        graph.scans[name] = scanner.scan(name, content)


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
        message = f'import "{_shown(specifier)}" has a character that is not allowed: {bad}'
        return RefusedImport(code="import-bad-character", message=message)
    if specifier.split("/", 1)[0] not in {".", ".."}:
        return _bare(specifier)
    return None


def _bad_character(specifier: str) -> str | None:
    match = _BAD.search(specifier)
    if match is None:
        return "an empty segment" if "" in specifier.split("/") else None
    character = match[0]
    return f'"{character}"' if character > _CONTROL else f"U+{ord(character):04X}"


def _shown(specifier: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", "\ufffd", specifier)


def _bare(specifier: str) -> RefusedImport:
    path = specifier if specifier.endswith(EXTENSIONS) else f"{specifier}.mts"
    message = f'package import "{specifier}" is not allowed; use a relative path such as "./{path}"'
    return RefusedImport(code="import-bare", message=message)


def _resolved(importer: str, specifier: str, folder: str) -> str | RefusedImport:
    segments = specifier.split("/")
    begin = next((n for n, each in enumerate(segments) if each not in {".", ".."}), len(segments))
    if ".." in segments[begin:]:
        message = f'".." is allowed only at the beginning of import "{specifier}"'
        return RefusedImport(code="import-parent", message=message)
    name = posixpath.normpath(posixpath.join(posixpath.dirname(importer), specifier))
    if name.split("/")[0] == "..":
        message = f'import "{specifier}" leads out of {folder}'
        return RefusedImport(code="import-parent", message=message)
    if not name.endswith(EXTENSIONS) or begin == len(segments):
        message = f'import "{specifier}" must end in .mts, .mjs, .ts, .js or .json'
        return RefusedImport(code="import-extension", message=message)
    return name


def _meant(near: str | None) -> str | None:
    return f'did you mean "{near}"?' if near else None
