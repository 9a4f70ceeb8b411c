"""The files of one script: the first one, and all that is imported from there on."""

from collections import deque
from collections.abc import Callable

from msgspec import Struct, field

from penstock.sandbox.reading.folder import ReadFailure
from penstock.sandbox.reading.imports import Resolve, target
from penstock.sandbox.reading.lexer import Statement
from penstock.sandbox.reading.scan import ScannedFile, Scanner
from penstock.sandbox.script import RUNTIME, RUNTIME_NAMES

MOST_MODULES = 256
MOST_BYTES = 4 << 20

Read = Callable[[str, int], bytes | ReadFailure]
"""Returns what a file holds, or so many of its first bytes."""


class Graph(Struct, kw_only=True):
    """What was found, by the name of the file."""

    entry: str
    scans: dict[str, ScannedFile] = field(default_factory=dict)
    links: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each module, where its specifiers lead: to a module, or to RUNTIME."""
    absent: dict[str, ReadFailure] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    _exported: dict[str, frozenset[str] | None] = field(default_factory=dict)
    _found: dict[str, tuple[set[str] | None, set[str]]] = field(default_factory=dict)

    @property
    def is_too_large(self) -> bool:
        """Whether it was not read to its end."""
        return self.files > MOST_MODULES or self.bytes > MOST_BYTES

    def imports(self, name: str) -> list[Statement]:
        """Return the statements of a module that name another one."""
        scanned = self.scans.get(name)
        return [each for each in scanned.statements if each.kind == "import"] if scanned else []

    def exported(self, name: str) -> frozenset[str] | None:
        """Return what a module exports, by `export *` too; None if it is not known."""
        if name not in self._exported:
            self._exported[name] = self._find_exported(name)
        return self._exported[name]

    def _find_exported(self, name: str) -> frozenset[str] | None:
        if name == RUNTIME:
            return frozenset(RUNTIME_NAMES)
        found: set[str] = set()
        seen, waiting = {name}, [name]
        while waiting:
            here = waiting.pop()
            names, stars = self._own(here)
            if names is None:
                return None
            found |= names if here == name else names - {"default"}
            waiting += stars - seen
            seen |= stars
        return frozenset(found)

    def _own(self, name: str) -> tuple[set[str] | None, set[str]]:
        """Return the names that stand in a module, and the modules that it exports whole."""
        if name not in self._found:
            self._found[name] = self._find_own(name)
        return self._found[name]

    def _find_own(self, name: str) -> tuple[set[str] | None, set[str]]:
        if name == RUNTIME:
            return {*RUNTIME_NAMES}, set()
        scanned = self.scans.get(name)
        if scanned is None or scanned.is_broken:
            return None, set()
        specifiers = {
            scanned.statements[each.statement].specifier
            for each in scanned.exports
            if each.name is None and each.statement is not None
        }
        links = self.links[name]
        if not specifiers <= links.keys():
            return None, set()
        names = {each.name for each in scanned.exports if each.name is not None}
        return names, {links[each] for each in specifiers}


def read_graph(entry: str, read: Read, scanner: Scanner, resolve: Resolve = target) -> Graph:
    """Read every file once, the nearest to the entry first, until it is too large."""
    graph = Graph(entry=entry)
    waiting, found = deque([entry]), {entry}
    while waiting and not graph.is_too_large:
        name = waiting.popleft()
        _read_file(graph, name, read, scanner)
        links = graph.links[name] = {}
        for statement in graph.imports(name):
            there = resolve(name, statement, "")
            if isinstance(there, str):
                links[statement.specifier] = there
                if there != RUNTIME and there not in found:
                    found.add(there)
                    waiting.append(there)
        graph.files = len(found)
    return graph


def _read_file(graph: Graph, name: str, read: Read, scanner: Scanner) -> None:
    content = read(name, MOST_BYTES + 1)
    if isinstance(content, ReadFailure):
        graph.absent[name] = content
        return
    graph.bytes += len(content)
    if graph.bytes <= MOST_BYTES:
        graph.scans[name] = scanner.scan(name, content)
