"""What a command may touch of a project, for a sandbox that knows places and no patterns."""

import os

from msgspec import Struct

from penstock.resources.project.access import AUTHORED, UNWRITTEN
from penstock.resources.project.files import ProjectFiles

MOST_ENTRIES = 200_000
"""More than this are not looked at."""
_TOP = ("penstock.toml", "agents", "flows", "handbooks", ".pi/flows")
_NEVER = {".git", "node_modules"}
_MANIFESTS = (".tool.yaml", ".skill.yaml")


class Fence(Struct, frozen=True, kw_only=True):
    """Places that are there, as paths from the project's folder, without links."""

    hidden: tuple[str, ...]
    kept: tuple[str, ...]
    """They may be read, and not be written."""
    writable: tuple[str, ...]
    """Below these it may write; the empty text is the project."""


def fence(files: ProjectFiles) -> Fence:
    """Return the fence around a project, as it stands now."""
    top = sorted(each.name for each in files.root.iterdir())
    hidden = [*filter(files.access.hides, top), *files.access.private]
    kept = [name for name in top if any(each.fits(name) for each in UNWRITTEN)]
    authored = [*_TOP, *_manifests(files, {*hidden, *_TOP})]
    kept += [each for each in authored if not files.access.writes_of_its_own(each)]
    return Fence(
        hidden=_real(files, hidden),
        kept=_real(files, kept),
        writable=_real(files, [*files.access.writable_places]),
    )


def _manifests(files: ProjectFiles, apart: set[str]) -> list[str]:
    """Return the files that declare tools and skills, wherever they are."""
    found, seen, root = [], 0, str(files.root)
    for place, folders, names in os.walk(root):
        inside = place[len(root) :].lstrip("/").replace(os.sep, "/")
        inside = f"{inside}/" if inside else ""
        seen += len(names)
        if seen > MOST_ENTRIES:
            break
        folders[:] = sorted(
            each for each in folders if each not in _NEVER and inside + each not in apart
        )
        paths = [inside + name for name in sorted(names) if name.endswith(_MANIFESTS)]
        found += [path for path in paths if any(each.fits(path) for each in AUTHORED)]
    return found


def _real(files: ProjectFiles, paths: list[str]) -> tuple[str, ...]:
    """Return where the paths lead that are there, and in the project."""
    places = [files.root / path for path in paths]
    found = [files.real_of(str(place)) for place in places if place.exists()]
    return tuple(dict.fromkeys(each for each in found if each is not None))
