"""Where runs get flows from: by command, and by the path that a step gives."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.core.diagnostics import Diagnostic, did_you_mean
from penstock.core.errors import NotFound
from penstock.flows.checks.subflows import resolve

_GLOB = re.compile(r"[*?]")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSource:
    """A flow as it is now, with what its run is to keep."""

    file: str
    texts: Mapping[str, str]
    """Of the flow, and of what it refers to; by file."""
    errors: Sequence[Diagnostic] = ()
    """What keeps it from running, as far as somebody looked."""

    @property
    def text(self) -> str:
        """The flow itself."""
        return self.texts[self.file]


class Library(Protocol):
    """The flows that there are.

    Contract: a path in a flow's file is looked for beside that file first, then from the project's
    root; a glob gives its matches in path order; nothing outside the project is ever read.
    """

    def find(self, command: str) -> FlowSource:
        """Return a flow by its command. Raises NotFound, with the nearest one."""
        ...

    def refer(self, file: str, path: str) -> Sequence[FlowSource] | None:
        """Return the flows that a path in a flow's file means, perhaps none.

        None if the path leads out of the project.
        """
        ...


class NoFlows:
    """The library of a runtime without flows."""

    def find(self, command: str) -> FlowSource:
        """Find nothing. Raises NotFound."""
        raise unknown_flow(command, ())

    def refer(self, file: str, path: str) -> Sequence[FlowSource] | None:
        """Find nothing."""
        return ()


def unknown_flow(command: str, known: Iterable[str]) -> NotFound:
    """Return the error of a command that no flow has."""
    return NotFound(f'there is no flow "/{command}".{did_you_mean(command, list(known))}')


def is_glob(path: str) -> bool:
    """Whether a path may mean several files."""
    return bool(_GLOB.search(path))


def places_of(path: str, file: str) -> list[str] | None:
    """Return where a path of a flow's file may lead, the best first; None if that is outside."""
    return resolve(path, posixpath.dirname(file)) or None


def matches(pattern: str, files: Iterable[str]) -> list[str]:
    """Return the files that a path means, which may be a glob, in path order."""
    if not is_glob(pattern):
        return [each for each in files if each == pattern]
    wanted = _regex(pattern)
    return sorted(each for each in files if wanted.fullmatch(each))


def _regex(pattern: str) -> re.Pattern[str]:
    """Return a glob as a pattern: `*` and `?` stay within a folder, `**` does not."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    means = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(means.get(part) or re.escape(part) for part in parts))
