"""What a command may touch of a project, for a sandbox that knows places and no patterns.

The fence makes protected places that are there invisible or read-only, so that a command learns at
once that it may not use them. It is not the wall for writing: `overlay.py` judges every change by
its path when the command has ended. It is the wall for reading, so every hidden name is looked for,
and every other name of a hidden file (a hard link).
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath

from msgspec import Struct

from penstock.resources.project.access import is_authored
from penstock.resources.project.files import ProjectFiles, entries_below, is_there
from penstock.resources.project.hidden import FileId, id_of
from penstock.resources.project.opening import is_unfinished, remove_unfinished
from penstock.resources.project.turns import turn

_UNWRITTEN = (".git",)
_TOP = ("penstock.toml", "agents", "flows", "handbooks", "schedules", ".pi/flows")
_ENDINGS = (
    *(".tool.yaml", ".skill.yaml", ".permissions.yaml", ".prompts.yaml", ".schedule.yaml"),
    *(".py", ".pyc", ".so", ".pyd"),
)
"""Of names that AUTHORED may fit: others are passed over without a look at patterns."""
_FOREIGN = "node_modules"
"""No project reads manifests in there."""
_MOST_KEPT = 1000
"""Each is a mount of some 20 us. What is over is judged when the command has ended, as all is."""


class Fence(Struct, frozen=True, kw_only=True):
    """Places that are there, as paths from the project's folder, without links."""

    hidden: tuple[str, ...]
    kept: tuple[str, ...]
    """They may be read, and not be written."""
    writable: tuple[str, ...]
    """Below these it may write; the empty text is the project."""


def fence(files: ProjectFiles) -> Fence:
    """Return the fence around a project, as it stands now.

    On the way it removes what processes left of files that they were killed while writing.
    """
    files.access.loaded.refresh()
    access, hidden, authored = files.access, list[str](), list[str]()
    for path, entry in entries_below(files.root, access.hides):
        if access.hides(path):
            hidden.append(path)
        elif is_unfinished(entry.name):
            _clear(files.root, path)
        elif path.endswith(_ENDINGS) and is_authored(path):
            authored.append(path)
    if twins := files.hidden_twins():
        hidden += _twins(files, twins)
    hidden = [*sorted(hidden), *access.private]
    searched = (each for each in authored if _FOREIGN not in each.split("/"))
    authored = [*_TOP, *sorted({*searched, *access.loaded.paths})]
    own = access.writes_of_its_own if access.is_trusted else lambda _: False
    kept = [*_UNWRITTEN, *(each for each in authored if not own(each))]
    return Fence(
        hidden=_real(files, hidden),
        kept=_outermost(_real(files, kept))[:_MOST_KEPT],
        writable=_real(files, [*access.writable_places]),
    )


def _clear(root: Path, path: str) -> None:
    with turn(root, path) as is_held:
        if is_held:
            remove_unfinished(root, path)


def _twins(files: ProjectFiles, twins: frozenset[FileId]) -> Iterator[str]:
    for path, entry in entries_below(files.root, files.access.hides):
        with suppress(OSError):
            if id_of(entry.stat(follow_symlinks=False)) in twins:
                yield path


def _outermost(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out what lies below another of the paths."""
    every = {*paths}
    return tuple(
        path for path in paths if not any(str(above) in every for above in PurePath(path).parents)
    )


def _real(files: ProjectFiles, paths: list[str]) -> tuple[str, ...]:
    """Return where the paths lead that are there, and in the project."""
    places = [files.root / path for path in paths]
    found = [files.real_of(str(place)) for place in places if is_there(place)]
    return tuple(dict.fromkeys(each for each in found if each is not None))
