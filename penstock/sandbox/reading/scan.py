"""One file of a script, read by itself: JavaScript without types, its imports, exports, problems.

What came of a content is kept, in memory and in a folder, under the hash of the content and of the
blobs that read it; so a project of a thousand tools is read once.
"""

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic
from penstock.core.json_values.json_text import parse_json
from penstock.sandbox.blobs import pinned
from penstock.sandbox.reading.build_cache import BuildCache
from penstock.sandbox.reading.lexer import Export, Findings, Lexer, Statement
from penstock.sandbox.reading.mask import masked
from penstock.sandbox.reading.partial import forbidden, imports_alone, without
from penstock.sandbox.reading.typescript import DECORATOR, StripResult, TypeScript

TYPESCRIPT, JSON = (".mts", ".ts"), ".json"
LARGEST_JSON = 1 << 20
_FORMAT = "4"
"""Raised when what is kept changes its meaning."""
_WIDE = re.compile("[\U00010000-\U0010ffff]")
_LINE_END = re.compile(r"\r\n|\n|\r")
_OF_STATEMENT = Statement.__struct_fields__
_OF_EXPORT = Export.__struct_fields__
_OF_PROBLEM = ("code", "message", "line", "column", "suggestion")
_EXPORTED_TYPE = re.compile(
    r"\bexport\s+(?:declare\s+|default\s+)*(?:interface|type)\s+(?:([\w$]+)|\{([^{}]*)\})"
)
_ERASED = re.compile(r"(?:import|export)\s*\{[\s,]*\}\s*from")
_TYPE = re.compile(r"\btype\b")
NOT_ERASABLE = "{} is not supported: only TypeScript that can be erased"
ENUM = "enum"
_FORBIDDEN = {
    "import()": ("import-dynamic", "dynamic import() is not allowed"),
    "import.meta": ("import-meta", "import.meta is not allowed"),
    ENUM: ("ts-not-erasable", NOT_ERASABLE.format(ENUM)),
}
_MOST_REMAINS, _MOST_FORBIDDEN = 1 << 18, 200
"""Characters of a source that is still looked through, and how much of it is told."""
_MOST_ROUNDS, _MOST_READ = 32, 1 << 20
"""So often a source is read, and so many characters in all, to find what cannot be erased."""


class ScannedFile(Struct, frozen=True, kw_only=True):
    """What one file holds; positions are those of the file, in characters."""

    source: str = ""
    """Of what is broken, what stands where: its strings and comments are blank."""
    statements: tuple[Statement, ...] = ()
    exports: tuple[Export, ...] = ()
    types: tuple[str, ...] = ()
    """Exported names that stand for types alone."""
    problems: tuple[Diagnostic, ...] = ()
    """Without the name of the file."""
    is_broken: bool = False
    """Its imports and exports are not known."""
    is_late: bool = False
    """It took too long to read; the next time it is tried again."""


class Lines:
    """The lines of a text, counted once."""

    def __init__(self, text: str) -> None:
        self._begins = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of a place, from 1."""
        line = bisect_right(self._begins, offset)
        return line, offset - self._begins[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the place of a line and a column."""
        return self._begins[min(line, len(self._begins)) - 1] + column - 1


class Scanner:
    """Reads files one by one. Safe for threads; a cache that others may write to is refused."""

    def __init__(self, typescript: TypeScript, lexer: Lexer, cache: Path | None = None) -> None:
        self._typescript = typescript
        self._lexer = lexer
        folder = cache / "modules" if cache is not None else None
        self._kept = BuildCache(folder, _to_kept, _from_kept)
        pins = " ".join(pinned(f"{name}.wasm") for name in ("swc", "lexer", "quickjs"))
        self._read_by = f"{_FORMAT} {pins} ".encode()

    def scan(self, name: str, content: bytes) -> ScannedFile:
        """Read one file; the end of its name says what it is."""
        suffix = PurePosixPath(name).suffix
        language = "ts" if suffix in TYPESCRIPT else suffix.removeprefix(".")
        key = hashlib.sha256(self._read_by + language.encode() + b"\n" + content).hexdigest()
        found = self._kept.find(key)
        if found is None:
            found = self._read(suffix, content)
            if not found.is_late:
                self._kept.keep(key, found)
        return found

    def _read(self, suffix: str, content: bytes) -> ScannedFile:
        try:
            text = content.decode().removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            said = f"not UTF-8 at byte {error.start}"
            return _broken(Diagnostic(code="file-encoding", message=said))
        if suffix == JSON:
            return _json(text)
        return self._code(text, suffix)

    def _code(self, text: str, suffix: str) -> ScannedFile:
        """Read around what cannot be erased: one mistake does not hide the next."""
        problems: list[Diagnostic] = []
        lines, is_read = Lines(text), False
        stripped = self._typescript.strip_types(text)
        for _ in range(_most_rounds(text)):
            problem = _problem(stripped, suffix)
            if problem is None:
                return self._stripped(text, stripped, suffix, problems)
            if not stripped.is_unsupported and is_read:
                break  # it was TypeScript before it was made readable, so this is none of its own
            problems.append(problem)
            construct, at = stripped.problem or "", lines.offset(problem.line, problem.column)
            rest = without(text, construct, at) if stripped.is_unsupported else None
            if rest is None:
                break
            is_read = is_read or construct != DECORATOR
            text, stripped = rest, self._typescript.strip_types(rest)
        return self._remains(text, suffix, problems, is_late=stripped.is_late)

    def _stripped(
        self, text: str, stripped: StripResult, suffix: str, problems: list[Diagnostic]
    ) -> ScannedFile:
        foreign = _foreign(text, stripped, suffix)
        if foreign is not None:
            problems.append(foreign)
        has_types = suffix in TYPESCRIPT or foreign is not None
        source = _aligned(text, stripped.source) if has_types else text
        scanned = self._scanned(text, source)
        return replace(scanned, problems=(*problems, *scanned.problems))

    def _remains(
        self, text: str, suffix: str, problems: list[Diagnostic], *, is_late: bool
    ) -> ScannedFile:
        """Say what can be told of a source that cannot be read whole."""
        if is_late or len(text) > _MOST_REMAINS:
            return ScannedFile(problems=tuple(problems), is_broken=True, is_late=is_late)
        alone = imports_alone(text)
        stripped = self._typescript.strip_types(alone)
        found = ScannedFile()
        if stripped.problem is None:
            found = self._scanned(alone, _aligned(alone, stripped.source))
        lines = Lines(text)
        for at, what in islice(forbidden(text), _MOST_FORBIDDEN):
            line, column = lines.place(at)
            code, said = _FORBIDDEN[what]
            if what != ENUM or suffix in TYPESCRIPT:
                problems.append(Diagnostic(code=code, message=said, line=line, column=column))
        return ScannedFile(
            source=masked(text),
            statements=found.statements,
            problems=tuple(dict.fromkeys(problems)),
            is_broken=True,
        )

    def _scanned(self, text: str, source: str) -> ScannedFile:
        findings = self._lexer.scan(source)
        erased = [each for each in findings.statements if _is_erased(each, source, text)]
        if erased:
            for each in erased:
                source = source[: each.at] + _blank(source[each.at : each.end]) + source[each.end :]
            findings = self._lexer.scan(source)
        scanned = ScannedFile(
            source=source,
            statements=findings.statements,
            exports=findings.exports,
            types=tuple(sorted(_types(text))) if source != text else (),
            is_broken=findings.problem is not None,
            is_late=findings.is_late,
        )
        return replace(scanned, problems=tuple(_refused(scanned, findings)))


def _to_kept(scanned: ScannedFile) -> dict[str, Any]:
    return {
        "source": scanned.source,
        "statements": [_row(each, _OF_STATEMENT) for each in scanned.statements],
        "exports": [_row(each, _OF_EXPORT) for each in scanned.exports],
        "types": scanned.types,
        "problems": [_row(each, _OF_PROBLEM) for each in scanned.problems],
        "is_broken": scanned.is_broken,
    }


def _from_kept(kept: dict[str, Any]) -> ScannedFile:
    return ScannedFile(
        source=kept["source"],
        statements=tuple(_statement(each) for each in kept["statements"]),
        exports=tuple(
            Export(**dict(zip(_OF_EXPORT, each, strict=True))) for each in kept["exports"]
        ),
        types=tuple(kept["types"]),
        problems=tuple(
            Diagnostic(**dict(zip(_OF_PROBLEM, each, strict=True))) for each in kept["problems"]
        ),
        is_broken=kept["is_broken"],
    )


def _row(value: Any, names: Sequence[str]) -> list[Any]:
    return [getattr(value, name) for name in names]


def _statement(kept: list[Any]) -> Statement:
    found = dict(zip(_OF_STATEMENT, kept, strict=True))
    for name in ("attributes", "names"):
        found[name] = tuple(map(tuple, found[name]))
    return Statement(**found)


def _broken(problem: Diagnostic) -> ScannedFile:
    return ScannedFile(problems=(problem,), is_broken=True)


def _most_rounds(text: str) -> int:
    return max(2, min(_MOST_ROUNDS, _MOST_READ // (len(text) + 1)))


def _json(text: str) -> ScannedFile:
    size = len(text.encode())
    if size > LARGEST_JSON:
        said = f"the JSON module has {size} bytes; the limit is {LARGEST_JSON}"
        return _broken(Diagnostic(code="graph-too-large", message=said))
    try:
        parse_json(text)
    except RecursionError:
        said, line, column = "nested too deeply", 1, 1
    except json.JSONDecodeError as error:
        said, line, column = error.msg, error.lineno, error.colno
    except ValueError as error:
        said, line, column = str(error), 1, 1
    else:
        return ScannedFile(source=text, exports=(Export(name="default"),))
    said = f"not valid JSON: {said}"
    return _broken(Diagnostic(code="script-syntax", message=said, line=line, column=column))


def _problem(stripped: StripResult, suffix: str) -> Diagnostic | None:
    """Say why the types could not be taken out."""
    if stripped.problem is None:
        return None
    code, said = "script-syntax", stripped.problem
    if stripped.is_unsupported and suffix in TYPESCRIPT:
        code, said = "ts-not-erasable", NOT_ERASABLE.format(said)
    elif stripped.is_unsupported:
        said = f"{said} is no JavaScript"
    return Diagnostic(code=code, message=said, line=stripped.line, column=stripped.column)


def _foreign(text: str, stripped: StripResult, suffix: str) -> Diagnostic | None:
    """Find types in a file of JavaScript.

    `f(a < b, c > (d))` may be read as a call with types; in JavaScript it has none.
    """
    if suffix in TYPESCRIPT or stripped.source == text:
        return None
    pairs = zip(text, stripped.source, strict=False)
    at = next((at for at, (wrote, left) in enumerate(pairs) if wrote != left), 0)
    if text[at] == "<":
        return None
    line, column = Lines(text).place(at)
    said = "this is TypeScript; in JavaScript there are no types"
    hint = "end the name of the file in .mts"
    return Diagnostic(code="script-syntax", message=said, line=line, column=column, suggestion=hint)


def _aligned(text: str, stripped: str) -> str:
    """Put one blank where there are two: for a character that is two units of UTF-16."""
    if len(text) == len(stripped):
        return stripped
    parts, begin, extra = [], 0, 0
    for found in _WIDE.finditer(text):
        at = found.start() + extra
        if stripped[at] != found[0]:
            parts.append(stripped[begin:at])
            begin, extra = at + 1, extra + 1
    return "".join([*parts, stripped[begin:]])


def _is_erased(statement: Statement, source: str, text: str) -> bool:
    """Tell whether nothing but types was taken from the other module.

    What is left is `import { } from`, which would load it all the same.
    """
    left = source[statement.at : statement.end]
    wrote = text[statement.at : statement.end]
    return left != wrote and bool(_ERASED.match(left)) and bool(_TYPE.search(wrote))


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def _types(text: str) -> Iterator[str]:
    for found in _EXPORTED_TYPE.finditer(text):
        for each in (found[1] or found[2] or "").split(","):
            yield from each.split()[-1:]


def _refused(scanned: ScannedFile, findings: Findings) -> Iterator[Diagnostic]:
    """Say what no module may hold, wherever it stands."""
    rows = [
        (findings.problem_at, "script-syntax", str(findings.problem))
        for _ in range(int(scanned.is_broken))
    ]
    for each in findings.statements:
        if each.kind == "dynamic":
            rows.append((each.at, *_FORBIDDEN["import()"]))
        elif each.kind == "meta":
            rows.append((each.at, *_FORBIDDEN["import.meta"]))
        elif each.phase is not None:
            rows.append((each.at, "script-syntax", f"import {each.phase} is not supported"))
    lines = Lines(scanned.source if rows else "")
    for at, code, message in rows:
        line, column = lines.place(at)
        yield Diagnostic(code=code, message=message, line=line, column=column)
