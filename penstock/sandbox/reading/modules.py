"""From the file that a manifest names, or the text in it, to a Script, or to all its problems."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic, Severity
from penstock.sandbox.reading.folder import Files, ReadFailure
from penstock.sandbox.reading.graph import MOST_BYTES, MOST_MODULES, Graph, Read, read_graph
from penstock.sandbox.reading.imports import (
    EXTENSIONS,
    RefusedImport,
    Resolve,
    missing_file,
    missing_name,
    refused_attributes,
    target,
)
from penstock.sandbox.reading.lexer import Statement
from penstock.sandbox.reading.mask import masked
from penstock.sandbox.reading.partial import exported, may_export
from penstock.sandbox.reading.scan import JSON, Lines, Scanner
from penstock.sandbox.script import RUNTIME, LoadResult, Module, Script

INLINE = "inline.mts"
"""What an inline script is called on stacks."""
_MOST_HINTS = 20
"""To look for the nearest name takes a while, and so do a hundred thousand wrong ones."""
_THING = re.compile(
    r"""'[^'\r\n]*'|"[^"\r\n]*"|`[^`\r\n]*`|[@#]?[\w$]+|[^\r\n]*[^\s]""",
)
"""A text in quotes, a name, or whatever stands there to the end of the line."""
_OF_FILES = frozenset({"entrypoint-missing", "file-encoding", "file-missing", "graph-too-large"})
"""Codes of what has no place in its file."""
_USED = re.compile(r"(?<![.\w$])(Intl|Temporal)\s*\??\.\s*[\w$]")
_OWN = re.compile(
    r"(?:\b(?:class|function|const|let|var)\b[\s*]*|[{,]\s*|\bas\s+|\bimport\s+)"
    r"(Intl|Temporal)(?![\w$.])"
)
"""A name that the module declares, or imports."""


class InlineScript(Struct, frozen=True, kw_only=True):
    """A script that stands in a manifest."""

    text: str
    file: str
    """The manifest, relative to the project."""
    line: int = 1
    column: int = 1
    """Where the text begins; each of its lines is indented as far."""
    is_verbatim: bool = True
    """Its lines are lines of the file; else what is wrong is told where it begins."""


class ScriptReference(Struct, frozen=True, kw_only=True):
    """A script as a manifest names it."""

    files: Files
    """Of the folder that the manifest stands in."""
    folder: str = ""
    """That folder, relative to the project, with `/`."""
    entry: str | InlineScript
    """The file to begin with, relative to the folder; or the script itself."""
    entrypoint: str = "default"
    resolve: Resolve = target
    """Where imports lead."""


def load(wanted: ScriptReference, scanner: Scanner) -> LoadResult:
    """Read a script with all that it imports, each file once, and check it.

    Its problems are found together, those of every file; none of its code runs.
    """
    entry = INLINE if isinstance(wanted.entry, InlineScript) else wanted.entry
    if not entry.endswith(EXTENSIONS) or entry.endswith(JSON):
        return LoadResult(problems=(_placed(wanted, _not_a_script(entry)),))
    graph = read_graph(entry, _reader(wanted), scanner, wanted.resolve)
    if problems := _told(wanted, _Check(wanted, graph).problems()):
        return LoadResult(problems=problems)
    warnings = (
        replace(each, file=name)
        for name, scanned in graph.scans.items()
        if not name.endswith(JSON)
        for each in absent_globals(scanned.source)
    )
    script = _script(graph, wanted.entrypoint)
    return LoadResult(script=script, warnings=_told(wanted, warnings))


def _told(wanted: ScriptReference, problems: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return findings with their ranges, as the project knows their places, each once."""
    read, texts, found = _reader(wanted), dict[str, tuple[str, Lines]](), set[Diagnostic]()
    for each in problems:
        if each.file not in texts:
            content = read(each.file, MOST_BYTES)
            raw = b"" if isinstance(content, ReadFailure) else content
            text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
            texts[each.file] = text, Lines(text)
        found.add(_placed(wanted, spanned(each, *texts[each.file])))
    return tuple(sorted(found, key=_order))


def _reader(wanted: ScriptReference) -> Read:
    def read(name: str, most: int) -> bytes | ReadFailure:
        if isinstance(wanted.entry, InlineScript) and name == INLINE:
            return wanted.entry.text.encode("utf-8", "surrogatepass")
        return wanted.files.read(name, most)

    return read


def _not_a_script(entry: str) -> Diagnostic:
    if PurePosixPath(entry).suffix == ".tsx":
        said = ".tsx is not supported: only TypeScript that can be erased"
        return Diagnostic(code="ts-not-erasable", message=said, file=entry)
    said = f'"{entry}" must end in .mts, .mjs, .ts or .js'
    return Diagnostic(code="import-extension", message=said, file=entry)


class _Check:
    """Looks through a graph that has been read."""

    def __init__(self, wanted: ScriptReference, graph: Graph) -> None:
        self._wanted = wanted
        self._graph = graph
        self._folder = wanted.folder or "the project"
        self._names: list[str] | None = None
        self._hints = _MOST_HINTS

    def problems(self) -> Iterator[Diagnostic]:
        """Yield all that is wrong; of a graph that is too large, that alone is told for sure."""
        graph = self._graph
        for name, scanned in graph.scans.items():
            for problem in scanned.problems:
                yield replace(problem, file=name)
        if graph.is_too_large:
            yield self._too_large()
        elif graph.entry in graph.absent:
            yield self._no_entry()
        else:
            for name in graph.scans:
                yield from self._of_imports(name)
            yield from self._of_entrypoint()

    def _too_large(self) -> Diagnostic:
        said = (
            f"the module graph has {self._graph.files} files, {self._graph.bytes} bytes; "
            f"the limits are {MOST_MODULES} and {MOST_BYTES}"
        )
        return Diagnostic(code="graph-too-large", message=said, file=self._graph.entry)

    def _no_entry(self) -> Diagnostic:
        entry = self._graph.entry
        if self._graph.absent[entry] is ReadFailure.ESCAPES:
            said = f'"{entry}" leads out of {self._folder} through a symlink'
            return Diagnostic(code="path-escape", message=said, file=entry)
        said = f'the file "{entry}" does not exist'
        return Diagnostic(code="file-missing", message=said, file=entry)

    def _of_imports(self, name: str) -> Iterator[Diagnostic]:
        found = [
            pair
            for statement in self._graph.imports(name)
            for pair in self._of_import(name, statement)
        ]
        lines = Lines(self._graph.scans[name].source if found else "")
        for at, refused in found:
            line, column = lines.place(at)
            yield Diagnostic(
                code=refused.code,
                message=refused.message,
                file=name,
                line=line,
                column=column,
                suggestion=refused.suggestion,
            )

    def _of_import(self, name: str, statement: Statement) -> Iterator[tuple[int, RefusedImport]]:
        """Yield what is wrong with one import, and where."""
        there = self._wanted.resolve(name, statement, self._folder)
        at = statement.specifier_at
        if isinstance(there, RefusedImport):
            yield at, there
            return
        yield from refused_attributes(statement)
        if there in self._graph.absent:
            yield at, self._absent(name, statement.specifier, there)
            return
        known = self._graph.exported(there)
        types = () if there == RUNTIME else self._graph.scans[there].types
        for wanted, place in statement.names:
            if known is not None and wanted not in known:
                near = known if self._may_hint() else ()
                yield place, missing_name(statement.specifier, wanted, near, types)

    def _absent(self, name: str, specifier: str, there: str) -> RefusedImport:
        if self._graph.absent[there] is ReadFailure.ESCAPES:
            said = f'"{specifier}" leads out of {self._folder} through a symlink'
            return RefusedImport(code="import-escape", message=said)
        if self._names is None:
            names = self._wanted.files.names()
            self._names = [each for each in names if each.endswith(EXTENSIONS)]
        return missing_file(name, specifier, self._names if self._may_hint() else ())

    def _may_hint(self) -> bool:
        self._hints -= 1
        return self._hints >= 0

    def _of_entrypoint(self) -> Iterator[Diagnostic]:
        entry, wanted = self._graph.entry, self._wanted.entrypoint
        names = self._graph.exported(entry)
        broken = self._graph.scans[entry].source if self._graph.scans[entry].is_broken else ""
        if broken and not may_export(broken, wanted):
            names = frozenset(exported(broken))
        if names is not None and wanted not in names:
            there = ", ".join(f'"{each}"' for each in sorted(names)) or "nothing"
            is_file = isinstance(self._wanted.entry, str)
            shown = f'"{entry}"' if is_file else "the script"
            said = f'{shown} does not export "{wanted}"; it exports {there}'
            yield Diagnostic(code="entrypoint-missing", message=said, file=entry)


def _placed(wanted: ScriptReference, problem: Diagnostic) -> Diagnostic:
    """Say where it is in the project; what is wrong in an inline script is in the manifest."""
    entry, folder = wanted.entry, wanted.folder
    if isinstance(entry, InlineScript) and problem.file == INLINE:
        if not entry.is_verbatim:
            begins = replace(problem, file=entry.file, line=entry.line, column=entry.column)
            return replace(begins, end_line=0, end_column=0)
        down, right = entry.line - 1, entry.column - 1
        moved = replace(
            problem, file=entry.file, line=problem.line + down, column=problem.column + right
        )
        if not problem.end_column:
            return moved
        end_line, end_column = problem.end_line + down, problem.end_column + right
        return replace(moved, end_line=end_line, end_column=end_column)
    return replace(problem, file=f"{folder}/{problem.file}" if folder else problem.file)


def _order(problem: Diagnostic) -> tuple[str, int, int, str, str]:
    return problem.file, problem.line, problem.column, problem.code, problem.message


def _script(graph: Graph, entrypoint: str) -> Script:
    modules = {
        name: Module(
            name=name,
            source=scanned.source,
            imports=graph.links[name],
            is_json=name.endswith(JSON),
        )
        for name, scanned in graph.scans.items()
    }
    digest = hashlib.sha256(f"{graph.entry}\n{entrypoint}\n".encode())
    for name in sorted(modules):
        source = modules[name].source.encode()
        digest.update(f"{name}\n{len(source)}\n".encode() + source)
    return Script(
        entry=graph.entry, entrypoint=entrypoint, modules=modules, digest=digest.hexdigest()
    )


def spanned(problem: Diagnostic, text: str, lines: Lines) -> Diagnostic:
    """Return the finding with the end of its range, in the source that it is about."""
    if problem.code in _OF_FILES or problem.end_column:
        return problem
    found = _THING.match(text, lines.offset(problem.line, problem.column))
    if found is None:
        return problem
    line, column = lines.place(found.end())
    return replace(problem, end_line=line, end_column=column)


def absent_globals(source: str) -> Iterator[Diagnostic]:
    """Yield a warning where a module of JavaScript uses one of them, once for each."""
    if not _USED.search(source):
        return
    mask, lines = masked(source), Lines(source)
    seen = {found[1] for found in _OWN.finditer(mask)}
    for found in _USED.finditer(mask):
        if found[1] in seen:
            continue
        seen.add(found[1])
        line, column = lines.place(found.start())
        yield Diagnostic(
            code="absent-global",
            message=f'there is no "{found[1]}" in a script',
            line=line,
            column=column,
            severity=Severity.WARNING,
            suggestion="format by hand, or with flo.time.formatUnixTimestamp",
        )
