"""The project's folder, for tools that work in it, and what of it is the runtime's own."""

from pathlib import Path

from msgspec.structs import replace

from penstock.app.settings import Settings
from penstock.resources.cipher import KEY_FILE
from penstock.resources.project.loaded import LoadedFiles
from penstock.sandbox.processes.slots import ProcessSlots
from penstock.tools.resources import ProjectFolder

_SQLITE = "sqlite:///"
_BESIDE = ("", "-wal", "-shm")
"""What SQLite keeps beside its file."""


def folder_of(settings: Settings) -> ProjectFolder:
    """Return the folder: where data, blobs and the database lie in it is hidden from agents."""
    root, limits = settings.root.resolve(), settings.all_limits
    places = [settings.data_path, settings.data_path / KEY_FILE, Path(settings.blob_place)]
    if settings.database.startswith(_SQLITE):
        file = settings.database.removeprefix(_SQLITE)
        places += [Path(f"{file}{ending}") for ending in _BESIDE]
    inside = [each for each in places if each != root and each.is_relative_to(root)]
    private = dict.fromkeys(each.relative_to(root).as_posix() for each in inside)
    return ProjectFolder(
        root=root,
        private=tuple(private),
        loaded=LoadedFiles(),
        shell=replace(
            settings.flows.shell_settings,
            slots=ProcessSlots(limits.shell_commands),
            processes=limits.shell_processes,
            memory_mb=limits.shell_memory_mb,
        ),
    )
