"""Loads the script of a manifest with all modules that it imports, and checks it.

Guarantees that a `Script` contains only modules whose imports all resolve inside its folder, whose
imported names exist and whose entrypoint is exported; otherwise all problems of all files are
returned at once, with their positions in the author's files. No code of the script runs. The
problems of a script inside a manifest are reported at their lines in the manifest. Proof:
tests/sandbox/compiler/test_load_script.py.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic, Severity
from penstock.sandbox.compiler.broken_source import exported, masked, may_export
from penstock.sandbox.compiler.module_graph import (
    EXTENSIONS,
    MAX_BYTES,
    MAX_MODULES,
    Graph,
    Read,
    RefusedImport,
    Resolve,
    missing_file,
    missing_name,
    read_graph,
    refused_attributes,
    target,
)
from penstock.sandbox.compiler.parsers import Statement
from penstock.sandbox.compiler.scanner import JSON, Lines, Scanner
from penstock.sandbox.compiler.script_files import Files, ReadFailure
from penstock.sandbox.script import RUNTIME, LoadResult, Module, Script

INLINE = "inline.mts"
"""The name of an inline script on stacks."""
_MAX_HINTS = 20
"""Most suggestions per script: each compares a name with all names, and a hostile script may have
a hundred thousand wrong ones."""
_THING = re.compile(
    r"""'[^'\r\n]*'|"[^"\r\n]*"|`[^`\r\n]*`|[@#]?[\w$]+|[^\r\n]*[^\s]""",
)
"""A quoted text, a name, or the rest of the line."""
_OF_FILES = frozenset({"entrypoint-missing", "file-encoding", "file-missing", "graph-too-large"})
"""Codes of problems of a whole file: they have no range."""
_USED = re.compile(r"(?<![.\w$])(Intl|Temporal)\s*\??\.\s*[\w$]")
_OWN = re.compile(
    r"(?:\b(?:class|function|const|let|var)\b[\s*]*|[{,]\s*|\bas\s+|\bimport\s+)"
    r"(Intl|Temporal)(?![\w$.])"
)
"""A name that the module declares or imports."""


class InlineScript(Struct, frozen=True, kw_only=True):
    """A script inside a manifest."""

    text: str
    file: str
    """The manifest, relative to the project."""
    line: int = 1
    column: int = 1
    """The position of the text in the manifest; each line is indented as far."""
    is_verbatim: bool = True
    """Lines of the text are lines of the file. Otherwise problems are reported at its start."""


class ScriptReference(Struct, frozen=True, kw_only=True):
    """A script as a manifest names it."""

    files: Files
    """The files of the manifest's folder."""
    folder: str = ""
    """That folder, relative to the project, with `/`."""
    entry: str | InlineScript
    """The entry file, relative to the folder; or the script itself."""
    entrypoint: str = "default"
    resolve: Resolve = target
    """Resolves imports."""


def load(reference: ScriptReference, scanner: Scanner) -> LoadResult:
    """Load and check a script; return it, or all problems of all of its files.

    Each file is read once. No code of the script runs.
    """
    entry = INLINE if isinstance(reference.entry, InlineScript) else reference.entry
    if not entry.endswith(EXTENSIONS) or entry.endswith(JSON):
        return LoadResult(problems=(_placed(reference, _not_a_script(entry)),))
    graph = read_graph(entry, _reader(reference), scanner, reference.resolve)
    if problems := _located(reference, _Check(reference, graph).problems()):
        return LoadResult(problems=problems)
    warnings = (
        replace(warning, file=name)
        for name, scanned in graph.scans.items()
        if not name.endswith(JSON)
        for warning in absent_globals(scanned.source)
    )
    script = _script(graph, reference.entrypoint)
    return LoadResult(script=script, warnings=_located(reference, warnings))


def _located(reference: ScriptReference, problems: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the problems with ranges, at their positions in the project, without duplicates."""
    read, texts, located = _reader(reference), dict[str, tuple[str, Lines]](), set[Diagnostic]()
    for problem in problems:
        if problem.file not in texts:
            content = read(problem.file, MAX_BYTES)
            raw = b"" if isinstance(content, ReadFailure) else content
            text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
            texts[problem.file] = text, Lines(text)
        located.add(_placed(reference, spanned(problem, *texts[problem.file])))
    return tuple(sorted(located, key=_order))


def _reader(reference: ScriptReference) -> Read:
    def read(name: str, most: int) -> bytes | ReadFailure:
        if isinstance(reference.entry, InlineScript) and name == INLINE:
            return reference.entry.text.encode("utf-8", "surrogatepass")
        return reference.files.read(name, most)

    return read


def _not_a_script(entry: str) -> Diagnostic:
    if PurePosixPath(entry).suffix == ".tsx":
        message = ".tsx is not supported: only TypeScript that can be erased"
        return Diagnostic(code="ts-not-erasable", message=message, file=entry)
    message = f'"{entry}" must end in .mts, .mjs, .ts or .js'
    return Diagnostic(code="import-extension", message=message, file=entry)


class _Check:
    """Checks a graph that has been read."""

    def __init__(self, reference: ScriptReference, graph: Graph) -> None:
        self._reference = reference
        self._graph = graph
        self._folder = reference.folder or "the project"
        self._names: list[str] | None = None
        self._hints = _MAX_HINTS

    def problems(self) -> Iterator[Diagnostic]:
        """Yield all problems of all files."""
        graph = self._graph
        for name, scanned in graph.scans.items():
            for problem in scanned.problems:
                yield replace(problem, file=name)
        # A graph that is too large was not read to its end, so its imports cannot be checked.
        if graph.is_too_large:
            yield self._too_large()
        elif graph.entry in graph.absent:
            yield self._no_entry()
        else:
            for name in graph.scans:
                yield from self._of_imports(name)
            yield from self._of_entrypoint()

    def _too_large(self) -> Diagnostic:
        message = (
            f"the module graph has {self._graph.files} files, {self._graph.bytes} bytes; "
            f"the limits are {MAX_MODULES} and {MAX_BYTES}"
        )
        return Diagnostic(code="graph-too-large", message=message, file=self._graph.entry)

    def _no_entry(self) -> Diagnostic:
        entry = self._graph.entry
        if self._graph.absent[entry] is ReadFailure.ESCAPES:
            message = f'"{entry}" leads out of {self._folder} through a symlink'
            return Diagnostic(code="path-escape", message=message, file=entry)
        message = f'the file "{entry}" does not exist'
        return Diagnostic(code="file-missing", message=message, file=entry)

    def _of_imports(self, name: str) -> Iterator[Diagnostic]:
        refusals = [
            pair
            for statement in self._graph.imports(name)
            for pair in self._of_import(name, statement)
        ]
        lines = Lines(self._graph.scans[name].source if refusals else "")
        for offset, refused in refusals:
            line, column = lines.place(offset)
            yield Diagnostic(
                code=refused.code,
                message=refused.message,
                file=name,
                line=line,
                column=column,
                suggestion=refused.suggestion,
            )

    def _of_import(self, name: str, statement: Statement) -> Iterator[tuple[int, RefusedImport]]:
        """Yield the problems of one import, each with its offset."""
        module = self._reference.resolve(name, statement, self._folder)
        offset = statement.specifier_at
        if isinstance(module, RefusedImport):
            yield offset, module
            return
        yield from refused_attributes(statement)
        if module in self._graph.absent:
            yield offset, self._absent(name, statement.specifier, module)
            return
        known = self._graph.exported(module)
        types = () if module == RUNTIME else self._graph.scans[module].types
        for imported, name_offset in statement.names:
            if known is not None and imported not in known:
                near = known if self._may_hint() else ()
                yield name_offset, missing_name(statement.specifier, imported, near, types)

    def _absent(self, name: str, specifier: str, module: str) -> RefusedImport:
        if self._graph.absent[module] is ReadFailure.ESCAPES:
            message = f'"{specifier}" leads out of {self._folder} through a symlink'
            return RefusedImport(code="import-escape", message=message)
        if self._names is None:
            names = self._reference.files.names()
            self._names = [each for each in names if each.endswith(EXTENSIONS)]
        return missing_file(name, specifier, self._names if self._may_hint() else ())

    def _may_hint(self) -> bool:
        self._hints -= 1
        return self._hints >= 0

    def _of_entrypoint(self) -> Iterator[Diagnostic]:
        entry, entrypoint = self._graph.entry, self._reference.entrypoint
        names = self._graph.exported(entry)
        broken = self._graph.scans[entry].source if self._graph.scans[entry].is_broken else ""
        # The exports of a broken file are not known. If its text does not even contain the name,
        # the entrypoint is missing for certain.
        if broken and not may_export(broken, entrypoint):
            names = frozenset(exported(broken))
        if names is not None and entrypoint not in names:
            listed = ", ".join(f'"{each}"' for each in sorted(names)) or "nothing"
            is_file = isinstance(self._reference.entry, str)
            shown = f'"{entry}"' if is_file else "the script"
            message = f'{shown} does not export "{entrypoint}"; it exports {listed}'
            yield Diagnostic(code="entrypoint-missing", message=message, file=entry)


def _placed(reference: ScriptReference, problem: Diagnostic) -> Diagnostic:
    """Return the problem at its position in the project. An inline script is in its manifest."""
    entry, folder = reference.entry, reference.folder
    if isinstance(entry, InlineScript) and problem.file == INLINE:
        if not entry.is_verbatim:
            start = replace(problem, file=entry.file, line=entry.line, column=entry.column)
            return replace(start, end_line=0, end_column=0)
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
    """Return the problem with the end of its range: the quoted text or the name at its start."""
    if problem.code in _OF_FILES or problem.end_column:
        return problem
    subject = _THING.match(text, lines.offset(problem.line, problem.column))
    if subject is None:
        return problem
    line, column = lines.place(subject.end())
    return replace(problem, end_line=line, end_column=column)


def absent_globals(source: str) -> Iterator[Diagnostic]:
    """Yield a warning for each global of other engines that a module uses and scripts lack."""
    if not _USED.search(source):
        return
    mask, lines = masked(source), Lines(source)
    seen = {declared[1] for declared in _OWN.finditer(mask)}
    for used in _USED.finditer(mask):
        if used[1] in seen:
            continue
        seen.add(used[1])
        line, column = lines.place(used.start())
        yield Diagnostic(
            code="absent-global",
            message=f'there is no "{used[1]}" in a script',
            line=line,
            column=column,
            severity=Severity.WARNING,
            suggestion="format by hand, or with flo.time.formatUnixTimestamp",
        )
