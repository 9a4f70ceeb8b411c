"""Shell commands in a project: off, enclosed, or free."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.call_errors import NotPermitted
from penstock.resources.project.files import ProjectFiles
from penstock.tools.shell import OFF, ShellRun, ShellSettings, check_on, run_in_project
from penstock.tools.threads import Threads

ENCLOSED, FREE = ShellSettings(is_on=True), ShellSettings(is_on=True, is_enclosed=False)


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(1)
    yield threads
    threads.close()


def run(text: str, **environment: str) -> ShellRun:
    return ShellRun(text=text, seconds=5, most_bytes=1000, environment=environment)


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


async def test_what_cannot_be_enclosed_does_not_run(tmp_path: Path, threads: Threads) -> None:
    """§12.3: "Without such a system: refused, unless `shell_sandbox` is off"."""
    with pytest.raises(NotPermitted) as error:
        await run_in_project(run("touch x", A="\0"), ProjectFiles(tmp_path), ENCLOSED, threads)
    assert str(error.value) == (
        "the system does not confine commands here (embedded null byte), so none runs; "
        'shell_sandbox = "off" under [flows] runs them without'
    )
    assert not (tmp_path / "x").exists()


async def test_a_command_runs_free_where_the_operator_says_so(
    tmp_path: Path, threads: Threads
) -> None:
    (tmp_path / ".env").write_text("seen\n")
    end = await run_in_project(run("cat .env; pwd"), ProjectFiles(tmp_path), FREE, threads)
    assert end.stdout == f"seen\n{tmp_path}\n"
