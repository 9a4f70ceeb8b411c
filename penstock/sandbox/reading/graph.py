"""The module graph of one script: its entry, and every file that it imports, directly or not.

Reading stops as soon as a limit is exceeded, so a hostile graph costs at most MOST_MODULES files
and MOST_BYTES. Each file is read once. `exported` follows `export *`, also in cycles; it returns
None where a broken or missing file makes the answer uncertain, so that no false problem is
reported.
"""

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
"""Returns the content of a file; at most so many bytes."""


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
        return self.files > MOST_MODULES or self.bytes > MOST_BYTES

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
    content = read(name, MOST_BYTES + 1)
    if isinstance(content, ReadFailure):
        graph.absent[name] = content
        return
    graph.bytes += len(content)
    # A file beyond the limit is counted and not scanned: scanning costs many times its reading.
    if graph.bytes <= MOST_BYTES:
        graph.scans[name] = scanner.scan(name, content)
