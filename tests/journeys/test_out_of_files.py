"""A process without file descriptors treats no unreadable object as gone."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.app.reload import READ, file_stamps
from penstock.core.errors import OutOfResources
from penstock.flows.project.files import find_flows
from penstock.manifest.files import discover, read_bounded
from penstock.resources.project.files import ProjectFiles, entries_below, never
from penstock.resources.project.search import walk
from penstock.sandbox.processes.process import Command, Process
from penstock.sandbox.processes.shell import ShellCommand, run_shell
from tests.kit.exhausted_process import files_left, no_files_left, open_files
from tests.kit.flow_server import laid

Look = Callable[[Path], Any]


def listed(files: ProjectFiles) -> list[Any]:
    return [*walk(files, files.start("."))]


LOOKS: dict[str, Look] = {
    "manifests, or a watched project would lose its tools": lambda root: discover(root).files,
    "stamps of a watched project": lambda root: file_stamps(root, READ),
    "a file, or it would be called broken": lambda root: read_bounded(root / "a.tool.yaml", 100),
    "flows, or a run would find no flow of its name": lambda root: find_flows(root).files,
    "files, or protected ones would not be known": lambda root: [*entries_below(root, never)],
    "files, as `ls` shows them": lambda root: [
        *walk(ProjectFiles(root), ProjectFiles(root).start("."))
    ],
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_temporarily_unreadable_object_is_not_missing(tmp_path: Path, look: Look) -> None:
    laid(tmp_path)
    (tmp_path / "a.tool.yaml").write_text("name: a\n")
    assert look(tmp_path)
    with no_files_left(), pytest.raises(OutOfResources):
        look(tmp_path)
    assert look(tmp_path)


async def shell() -> None:
    await run_shell(
        ShellCommand(text="true", folder=Path("/"), enclosure=None, seconds=5, max_bytes=9)
    )


async def script() -> None:
    with ThreadPoolExecutor(1) as reaper:
        Process(Command(argv=["/bin/true"], folder=Path("/")), reaper)


@pytest.mark.programs
@pytest.mark.parametrize("start", [shell, script])
@pytest.mark.parametrize("left", range(6))
async def test_a_process_that_cannot_be_started_leaves_nothing_open(
    left: int, start: Callable[[], Awaitable[None]]
) -> None:
    """However many files are left for its pipes. Nothing ran, so even a write may wait."""
    before = open_files()
    with files_left(left), pytest.raises(OutOfResources) as raised:
        await start()
    assert raised.value.is_unstarted
    assert open_files() == before
