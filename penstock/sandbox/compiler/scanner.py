"""Reads one file of a script: to JavaScript without types, its imports, exports and problems.

Guarantees that positions in a `ScannedFile` are those of the author's file, and that hostile input
ends within bounds of time, memory and findings. Every file passes three blobs: swc strips the
types, the lexer finds imports and exports, QuickJS compiles (and does not run) the result. Results
are kept, in memory and on disk, under a hash of the content and of the pins of these blobs, so that
a project with a thousand tools is read once.

A file with mistakes is read as far as possible, so that authors see all problems at once: a
construct that cannot be erased is replaced (`broken_source.without`) and the rest is read again;
what still cannot be parsed is searched for imports and forbidden constructs by pattern.
Change _FORMAT when the meaning of a stored result changes. Proof:
tests/sandbox/compiler/test_scanner.py and test_broken_source.py.
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
from penstock.sandbox.compiler.broken_source import forbidden, imports_alone, masked, without
from penstock.sandbox.compiler.build_cache import BuildCache
from penstock.sandbox.compiler.parsers import (
    DECORATOR,
    Export,
    Findings,
    Lexer,
    Statement,
    StripResult,
    TypeScript,
)

TYPESCRIPT, JSON = (".mts", ".ts"), ".json"
MAX_JSON_BYTES = 1 << 20
_FORMAT = "4"
"""Part of the cache key. Increase it when the meaning of stored results changes."""
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
_MAX_REMAINS, _MAX_FORBIDDEN = 1 << 18, 200
"""Longest broken source that is searched by pattern, in characters, and most findings in it."""
_MAX_ROUNDS, _MAX_READ = 32, 1 << 20
"""How often a source is read to find what cannot be erased, and how many characters in total."""


class ScannedFile(Struct, frozen=True, kw_only=True):
    """The contents of one file. Positions are offsets into the author's file, in characters."""

    source: str = ""
    """JavaScript; of a broken file, its text with strings and comments blanked."""
    statements: tuple[Statement, ...] = ()
    exports: tuple[Export, ...] = ()
    types: tuple[str, ...] = ()
    """Exported names that are types only."""
    problems: tuple[Diagnostic, ...] = ()
    """Diagnostics, without the name of the file."""
    is_broken: bool = False
    """Its imports and exports are not known for certain."""
    is_late: bool = False
    """Reading timed out. Not cached, so the next scan tries again."""


class Lines:
    """Converts between offsets and lines with columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of an offset, from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line and a column."""
        return self._starts[min(line, len(self._starts)) - 1] + column - 1


class Scanner:
    """Reads files one by one. Thread-safe. Raises ConfigError if others may write to its cache."""

    def __init__(self, typescript: TypeScript, lexer: Lexer, cache: Path | None = None) -> None:
        self._typescript = typescript
        self._lexer = lexer
        folder = cache / "modules" if cache is not None else None
        self._kept = BuildCache(folder, _to_kept, _from_kept)
        pins = " ".join(pinned(f"{name}.wasm") for name in ("swc", "lexer", "quickjs"))
        self._read_by = f"{_FORMAT} {pins} ".encode()

    def scan(self, name: str, content: bytes) -> ScannedFile:
        """Read one file. The suffix of its name decides the language."""
        suffix = PurePosixPath(name).suffix
        language = "ts" if suffix in TYPESCRIPT else suffix.removeprefix(".")
        key = hashlib.sha256(self._read_by + language.encode() + b"\n" + content).hexdigest()
        scanned = self._kept.find(key)
        if scanned is None:
            scanned = self._read(suffix, content)
            if not scanned.is_late:
                self._kept.keep(key, scanned)
        return scanned

    def _read(self, suffix: str, content: bytes) -> ScannedFile:
        try:
            text = content.decode().removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            message = f"not UTF-8 at byte {error.start}"
            return _broken(Diagnostic(code="file-encoding", message=message))
        if suffix == JSON:
            return _json(text)
        return self._code(text, suffix)

    def _code(self, text: str, suffix: str) -> ScannedFile:
        """Replace what cannot be erased and read again, so that one mistake hides no other."""
        problems: list[Diagnostic] = []
        lines, is_read = Lines(text), False
        stripped = self._typescript.strip_types(text)
        for _ in range(_max_rounds(text)):
            problem = _problem(stripped, suffix)
            if problem is None:
                return self._stripped(text, stripped, suffix, problems)
            if not stripped.is_unsupported and is_read:
                break  # the replacement caused this syntax error, not the author
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
        """Find imports and forbidden constructs in a source that cannot be parsed."""
        if is_late or len(text) > _MAX_REMAINS:
            return ScannedFile(problems=tuple(problems), is_broken=True, is_late=is_late)
        alone = imports_alone(text)
        stripped = self._typescript.strip_types(alone)
        imports = ScannedFile()
        if stripped.problem is None:
            imports = self._scanned(alone, _aligned(alone, stripped.source))
        lines = Lines(text)
        for offset, construct in islice(forbidden(text), _MAX_FORBIDDEN):
            line, column = lines.place(offset)
            code, message = _FORBIDDEN[construct]
            if construct != ENUM or suffix in TYPESCRIPT:
                problems.append(Diagnostic(code=code, message=message, line=line, column=column))
        return ScannedFile(
            source=masked(text),
            statements=imports.statements,
            problems=tuple(dict.fromkeys(problems)),
            is_broken=True,
        )

    def _scanned(self, text: str, source: str) -> ScannedFile:
        findings = self._lexer.scan(source)
        erased = [each for each in findings.statements if _is_erased(each, source, text)]
        if erased:
            for statement in erased:
                blank = _blank(source[statement.at : statement.end])
                source = source[: statement.at] + blank + source[statement.end :]
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
    fields = dict(zip(_OF_STATEMENT, kept, strict=True))
    for name in ("attributes", "names"):
        fields[name] = tuple(map(tuple, fields[name]))
    return Statement(**fields)


def _broken(problem: Diagnostic) -> ScannedFile:
    return ScannedFile(problems=(problem,), is_broken=True)


def _max_rounds(text: str) -> int:
    return max(2, min(_MAX_ROUNDS, _MAX_READ // (len(text) + 1)))


def _json(text: str) -> ScannedFile:
    size = len(text.encode())
    if size > MAX_JSON_BYTES:
        message = f"the JSON module has {size} bytes; the limit is {MAX_JSON_BYTES}"
        return _broken(Diagnostic(code="graph-too-large", message=message))
    try:
        parse_json(text)
    except RecursionError:
        reason, line, column = "nested too deeply", 1, 1
    except json.JSONDecodeError as error:
        reason, line, column = error.msg, error.lineno, error.colno
    except ValueError as error:
        reason, line, column = str(error), 1, 1
    else:
        return ScannedFile(source=text, exports=(Export(name="default"),))
    message = f"not valid JSON: {reason}"
    return _broken(Diagnostic(code="script-syntax", message=message, line=line, column=column))


def _problem(stripped: StripResult, suffix: str) -> Diagnostic | None:
    """Return why the types could not be stripped, or None."""
    if stripped.problem is None:
        return None
    code, message = "script-syntax", stripped.problem
    if stripped.is_unsupported and suffix in TYPESCRIPT:
        code, message = "ts-not-erasable", NOT_ERASABLE.format(message)
    elif stripped.is_unsupported:
        message = f"{message} is not JavaScript"
    return Diagnostic(code=code, message=message, line=stripped.line, column=stripped.column)


def _foreign(text: str, stripped: StripResult, suffix: str) -> Diagnostic | None:
    """Find types in a JavaScript file.

    swc reads `f(a < b, c > (d))` as a call with type arguments. In JavaScript these are
    comparisons, so a difference that starts at `<` is not reported.
    """
    if suffix in TYPESCRIPT or stripped.source == text:
        return None
    pairs = zip(text, stripped.source, strict=False)
    at = next((at for at, (wrote, left) in enumerate(pairs) if wrote != left), 0)
    if text[at] == "<":
        return None
    line, column = Lines(text).place(at)
    message = "this is TypeScript; in JavaScript there are no types"
    hint = "end the name of the file in .mts"
    return Diagnostic(
        code="script-syntax", message=message, line=line, column=column, suggestion=hint
    )


def _aligned(text: str, stripped: str) -> str:
    """Restore the offsets of the text: swc blanks a wide character with two spaces."""
    # swc counts UTF-16 units; a character beyond the BMP has two of them.
    if len(text) == len(stripped):
        return stripped
    parts, begin, extra = [], 0, 0
    for wide in _WIDE.finditer(text):
        at = wide.start() + extra
        if stripped[at] != wide[0]:
            parts.append(stripped[begin:at])
            begin, extra = at + 1, extra + 1
    return "".join([*parts, stripped[begin:]])


def _is_erased(statement: Statement, source: str, text: str) -> bool:
    """Whether an import of types only was reduced to `import { } from`.

    It must be blanked: it would still load the other module.
    """
    left = source[statement.at : statement.end]
    wrote = text[statement.at : statement.end]
    return left != wrote and bool(_ERASED.match(left)) and bool(_TYPE.search(wrote))


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def _types(text: str) -> Iterator[str]:
    for declared in _EXPORTED_TYPE.finditer(text):
        for name in (declared[1] or declared[2] or "").split(","):
            yield from name.split()[-1:]


def _refused(scanned: ScannedFile, findings: Findings) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each syntax error and forbidden import."""
    rows = [
        (findings.problem_at, "script-syntax", str(findings.problem))
        for _ in range(int(scanned.is_broken))
    ]
    for statement in findings.statements:
        if statement.kind == "dynamic":
            rows.append((statement.at, *_FORBIDDEN["import()"]))
        elif statement.kind == "meta":
            rows.append((statement.at, *_FORBIDDEN["import.meta"]))
        elif statement.phase is not None:
            message = f"import {statement.phase} is not supported"
            rows.append((statement.at, "script-syntax", message))
    lines = Lines(scanned.source if rows else "")
    for at, code, message in rows:
        line, column = lines.place(at)
        yield Diagnostic(code=code, message=message, line=line, column=column)
