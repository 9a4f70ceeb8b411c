"""The resources of a skill: files that models and scripts may read."""

import mimetypes
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

from penstock.manifest.files.discover import LATER, NOUNS, is_searched, shown
from penstock.manifest.paths import SCRIPTS
from penstock.manifest.skill import SkillManifest

MOST_RESOURCES = 200
_MANIFESTS = (*(f".{noun}.yaml" for noun in NOUNS), *LATER)
_SECRET = (".env", "-shm")
_FOR_EDITORS = frozenset({"deno.json", "tsconfig.json"})
_OF_OPERATORS = frozenset({"penstock.toml", "penstock.db", "secret.key"})
"""Files of a project or its data that no model may read."""


class Resource(Struct, frozen=True, kw_only=True):
    """One file below the folder of a skill."""

    resource_id: str
    """`resource.1`, `resource.2` and so on, by path."""
    path: str
    """Relative to the folder of the skill, with `/`."""
    media_type: str
    size: int


def list_resources(root: Path, skill: SkillManifest) -> tuple[Resource, ...]:
    """Return the resources of a skill: no manifests, scripts, hidden files or other skills."""
    folder = root / skill.folder
    own = None if skill.instruction_file is None else Path(skill.instruction_file).as_posix()
    found = sorted(
        ((path, size) for path, size in _files(folder) if path != own),
        key=lambda each: os.fsencode(each[0]),
    )
    return tuple(
        Resource(
            resource_id=f"resource.{number}",
            path=shown(path),
            media_type=_types().guess_type(path)[0] or "application/octet-stream",
            size=size,
        )
        for number, (path, size) in enumerate(found[:MOST_RESOURCES], start=1)
    )


def is_resource(name: str) -> bool:
    """Return whether a file name in the folder of a skill is a resource."""
    is_for_others = name in _FOR_EDITORS or name.removesuffix("-wal") in _OF_OPERATORS
    return not is_for_others and not name.endswith((*_MANIFESTS, *SCRIPTS, *_SECRET))


@cache
def _types() -> mimetypes.MimeTypes:
    """Return the table of media types; loaded on first use, as it is large and rarely needed."""
    return mimetypes.MimeTypes()


def _files(root: Path) -> Iterator[tuple[str, int]]:
    """Yield the files below a folder, except those of other skills. Symlinks are not followed."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = [each for each in os.scandir(root / folder) if is_searched(each.name)]
        except OSError:
            continue
        if folder and any(entry.name.endswith(".skill.yaml") for entry in entries):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{folder}{entry.name}/")
            elif entry.is_file(follow_symlinks=False) and is_resource(entry.name):
                with suppress(OSError):  # it was deleted meanwhile
                    yield f"{folder}{entry.name}", entry.stat().st_size
