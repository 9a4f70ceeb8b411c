"""Shell commands in a project: off, enclosed, or free."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.core.call_errors import NotPermitted
from penstock.resources.project.access import Access, LoadedFiles
from penstock.resources.project.files import ProjectFiles
from penstock.resources.threads import Threads
from penstock.sandbox.processes.process_slots import ProcessSlots
from penstock.sandbox.processes.shell import ShellEnd
from penstock.tools.shell import OFF, ShellRun, ShellSettings, check_on, run_in_project

pytestmark = pytest.mark.programs

ENCLOSED, FREE = ShellSettings(is_on=True), ShellSettings(is_on=True, is_enclosed=False)


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(1)
    yield threads
    threads.close()


def run(text: str, **environment: str) -> ShellRun:
    return ShellRun(text=text, seconds=5, max_bytes=1000, environment=environment)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_nothing_runs_unless_it_is_switched_on() -> None:
    check_on(ENCLOSED)
    with pytest.raises(NotPermitted, match="bash is switched off in this project"):
        check_on(OFF)


async def test_a_command_is_enclosed_in_the_project(tmp_path: Path, threads: Threads) -> None:
    """§12.3: "protected paths hidden"."""
    for name in (".env", "penstock.toml"):
        (tmp_path / name).write_text("secret\n")
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock/db").touch()
    text = "cat .env; ls .penstock; echo $A > new; echo x > penstock.toml"
    end = await run_in_project(run(text, A="b"), ProjectFiles(tmp_path), ENCLOSED, threads)
    assert (end.stdout, (tmp_path / "new").read_text()) == ("", "b\n")
    assert "Read-only file system" in end.stderr


async def test_a_command_that_cannot_be_enclosed_does_not_run(
    tmp_path: Path, threads: Threads
) -> None:
    """§12.3: "Without such a system: refused, unless `shell_sandbox` is off"."""
    with pytest.raises(NotPermitted) as error:
        await run_in_project(run("touch x", A="\0"), ProjectFiles(tmp_path), ENCLOSED, threads)
    assert str(error.value) == (
        "the system does not confine commands here (embedded null byte), so none runs; "
        'shell_sandbox = "off" under [flows] runs them without'
    )
    assert not (tmp_path / "x").exists()


async def test_a_command_that_is_cut_changes_nothing(tmp_path: Path, threads: Threads) -> None:
    (tmp_path / "old").write_text("old")
    text = "echo new > old; echo x > made; echo ready; sleep 60"
    running = run_in_project(run(text), ProjectFiles(tmp_path), ENCLOSED, threads)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.4):
            await running
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "old"


class Cutting(LoadedFiles):
    """Cancels a task when a path is judged, and gives it time to end."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path, self.loop, self.ended = path, asyncio.get_running_loop(), threading.Event()
        self.task: asyncio.Task[ShellEnd]

    def has(self, name: str) -> bool:
        if name == self.path:
            self.task.add_done_callback(lambda _: self.ended.set())
            for _ in range(2):
                self.loop.call_soon_threadsafe(self.task.cancel)
            self.ended.wait(0.2)
        return False


async def test_all_changes_of_a_cancelled_call_are_applied(
    tmp_path: Path, threads: Threads
) -> None:
    cutting = Cutting("f20")
    files = ProjectFiles(tmp_path, Access(loaded=cutting))
    text = "i=10; while [ $i -lt 60 ]; do echo x > f$i; i=$((i+1)); done"
    cutting.task = asyncio.create_task(run_in_project(run(text), files, ENCLOSED, threads))
    with pytest.raises(asyncio.CancelledError):
        await cutting.task
    await threads.run(lambda: None)
    assert names(tmp_path) == [f"f{number}" for number in range(10, 60)]


PROGRAM = """
import asyncio, sys
from pathlib import Path
from penstock.resources.project.files import ProjectFiles
from penstock.tools.shell import ShellRun, ShellSettings, run_in_project
from penstock.resources.threads import Threads

run = ShellRun(text="echo x > made; echo x > old; sleep 60", seconds=60, max_bytes=10)
asyncio.run(run_in_project(run, ProjectFiles(Path(sys.argv[1])), ShellSettings(), Threads(1)))
"""


@pytest.mark.slow("starts a process and kills it")
def test_a_command_whose_penstock_is_killed_changes_nothing_and_ends(tmp_path: Path) -> None:
    """What it left in the folder for temporary files is removed with the next command."""
    project, scratch = tmp_path / "project", tmp_path / "scratch"
    project.mkdir()
    scratch.mkdir()
    (project / "old").write_text("old")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(project)], env={"TMPDIR": str(scratch)}
    ) as running:
        for _ in range(1000):
            if any(scratch.glob("*/changes/upper/old")):
                break
            with suppress(subprocess.TimeoutExpired):
                running.wait(0.01)
        running.kill()
    assert any(scratch.glob("*/changes/upper/old"))
    assert names(project) == ["old"]
    assert (project / "old").read_text() == "old"
    alive = scratch / f"penstock-{os.getpid()}-{Path('/proc/self/ns/pid').stat().st_ino}-x"
    elsewhere = scratch / "penstock-999999999-1-x"
    for each in (alive, elsewhere):
        each.mkdir()
    command = PROGRAM.replace("sleep 60", "true")
    subprocess.run(
        [sys.executable, "-c", command, str(project)], env={"TMPDIR": str(scratch)}, check=True
    )
    assert names(scratch) == sorted([alive.name, elsewhere.name])
    assert names(project) == ["made", "old"]


async def test_commands_wait_for_a_free_slot(tmp_path: Path, threads: Threads) -> None:
    settings = replace(ENCLOSED, slots=ProcessSlots(1))
    assert settings.slots is not None
    slot = await settings.slots.acquire("another task")
    running = run_in_project(run("echo x > made"), ProjectFiles(tmp_path), settings, threads)
    task = asyncio.create_task(running)
    await asyncio.wait([task], timeout=0.1)
    assert not task.done()
    slot.release()
    await task
    assert names(tmp_path) == ["made"]


async def test_a_command_runs_unenclosed_if_the_operator_allows_it(
    tmp_path: Path, threads: Threads
) -> None:
    (tmp_path / ".env").write_text("seen\n")
    end = await run_in_project(run("cat .env; pwd"), ProjectFiles(tmp_path), FREE, threads)
    assert end.stdout == f"seen\n{tmp_path}\n"
