"""The flows of a project on disk, as runs get them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.flows.files import SUFFIXES, FlowRoot, find_flows, read_flow_file
from penstock.flows.library import FlowSource, matches, places_of, unknown_flow
from penstock.flows.reading import ReadFlow

_MOST_SEEN = 20_000
"""Files of a project that a glob looks at."""


class ProjectFlows:
    """The Library of a project's folder, and of packages."""

    def __init__(self, root: Path, packages: Sequence[Path] = ()) -> None:
        self._root = root
        self._packages = packages

    def find(self, command: str) -> FlowSource:
        """Return a flow by its command."""
        found = find_flows(self._root, self._packages).files
        if command not in found:
            raise unknown_flow(command, found)
        return _source(read_flow_file(found[command]))

    def refer(self, file: str, path: str) -> Sequence[FlowSource] | None:
        """Return the flows that a path means."""
        places = places_of(path, file)
        if places is None:
            return None
        root = FlowRoot(self._root)
        for place in places:
            flows = [root.flow_at(each) for each in self._meant(place, root)]
            if found := [_source(each) for each in flows if each is not None]:
                return found
        return ()

    def _meant(self, place: str, root: FlowRoot) -> list[str]:
        is_plain = root.has_file(place)
        return [place] if is_plain else matches(place, self._files())

    def _files(self) -> Iterator[str]:
        """Yield the flow files of the project, hidden folders left out."""
        for count, path in enumerate(self._root.rglob("*")):
            if count >= _MOST_SEEN:
                return
            name = path.relative_to(self._root).as_posix()
            if name.endswith(SUFFIXES) and not any(p.startswith(".") for p in name.split("/")):
                yield name


def _source(read: ReadFlow) -> FlowSource:
    text = read.source if isinstance(read.source, str) else read.source.decode(errors="replace")
    return FlowSource(file=read.file, texts={read.file: text})
