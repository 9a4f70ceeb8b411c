"""The paths of a project that a command may use, for a sandbox that mounts paths, not patterns.

Existing protected paths are made invisible or read-only, so that a command fails early. For writing
this is a convenience: `overlay.py` judges every change by its path when the command has ended. For
reading it is the only protection, so the fence lists every hidden name and every hard link to a
hidden file. Proof: tests/resources/project/test_fence.py, tests/promises/test_ways_around.py.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath

from msgspec import Struct

from penstock.resources.project.access import FileId, id_of, is_authored
from penstock.resources.project.files import ProjectFiles, entries_below, file_lock, is_there
from penstock.resources.project.opening import is_unfinished, remove_unfinished

log = logging.getLogger(__name__)

_UNWRITTEN = (".git",)
_TOP = ("penstock.toml", "agents", "flows", "handbooks", "schedules", ".pi/flows")
_ENDINGS = (
    *(".tool.yaml", ".skill.yaml", ".permissions.yaml", ".prompts.yaml", ".schedule.yaml"),
    *(".py", ".pyc", ".so", ".pyd"),
)
"""Endings of names that AUTHORED can match; other names are skipped without a pattern match."""
_FOREIGN = "node_modules"
"""penstock reads no manifests below it."""
_MAX_PATHS = 1000
"""Each is a mount of about 20 us. Paths beyond this count are judged by `overlay.py` alone, and a
warning counts them."""

_UNFENCED = (
    "%s: %d of %d protected paths do not look read-only to shell commands, because at most %d do. "
    "Changes of the others are refused when a command ends."
)


class Fence(Struct, frozen=True, kw_only=True):
    """Existing paths, relative to the project's folder, with links resolved."""

    hidden: tuple[str, ...]
    kept: tuple[str, ...]
    """Read-only."""
    writable: tuple[str, ...]
    """Paths below which the command may write; the empty text is the project."""


def fence(files: ProjectFiles) -> Fence:
    """Return the current fence of a project.

    The walk also removes unfinished files that killed processes left.
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
    kept = _outermost(_real(files, [*_UNWRITTEN, *(each for each in authored if not own(each))]))
    if len(kept) > _MAX_PATHS:
        log.warning(_UNFENCED, files.root, len(kept) - _MAX_PATHS, len(kept), _MAX_PATHS)
    return Fence(
        hidden=_real(files, hidden),
        kept=kept[:_MAX_PATHS],
        writable=_real(files, [*access.writable_places]),
    )


def _clear(root: Path, path: str) -> None:
    with file_lock(root, path) as is_held:
        if is_held:
            remove_unfinished(root, path)


def _twins(files: ProjectFiles, twins: frozenset[FileId]) -> Iterator[str]:
    for path, entry in entries_below(files.root, files.access.hides):
        with suppress(OSError):
            if id_of(entry.stat(follow_symlinks=False)) in twins:
                yield path


def _outermost(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths that are not below another one."""
    every = {*paths}
    return tuple(
        path for path in paths if not any(str(above) in every for above in PurePath(path).parents)
    )


def _real(files: ProjectFiles, paths: list[str]) -> tuple[str, ...]:
    """Resolve the paths, without those that do not exist or leave the project."""
    places = [files.root / path for path in paths]
    resolved = [files.real_of(str(place)) for place in places if is_there(place)]
    return tuple(dict.fromkeys(each for each in resolved if each is not None))
