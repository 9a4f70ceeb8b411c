"""Shell commands: their output, their end, and the processes and folders that they leave."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.sandbox.processes.shell import (
    BoundedOutput,
    Enclosure,
    Leftovers,
    ShellCommand,
    run_shell,
)

OPEN = Enclosure()
NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino


def command(folder: Path, text: str, enclosure: Enclosure | None = OPEN) -> ShellCommand:
    return ShellCommand(
        text=text, folder=folder, enclosure=enclosure, seconds=5, max_bytes=1000, grace_seconds=0.3
    )


both = pytest.mark.parametrize("enclosure", [OPEN, None], ids=["enclosed", "free"])


@both
async def test_a_command_reports_how_it_ended(tmp_path: Path, enclosure: Enclosure | None) -> None:
    end = await run_shell(command(tmp_path, "pwd; echo no >&2; exit 3", enclosure))
    assert (end.code, end.stdout, end.stderr) == (3, f"{tmp_path}\n", "no\n")
    assert (await run_shell(command(tmp_path, "kill -9 $$", enclosure))).code == -9


@both
async def test_a_command_has_a_small_environment(
    tmp_path: Path, enclosure: Enclosure | None
) -> None:
    """§7.8: "environment `PATH`, `LANG`, `HOME` (empty directory)"."""
    more = replace(command(tmp_path, "env; ls -A ~", enclosure), environment={"PS_1": "a b"})
    lines = (await run_shell(more)).stdout.splitlines()
    assert sorted(line.partition("=")[0] for line in lines) == [
        "HOME",
        "LANG",
        "PATH",
        "PS_1",
        "PWD",
    ]


@both
async def test_processes_that_a_command_left_are_killed(
    tmp_path: Path, enclosure: Enclosure | None
) -> None:
    end = await run_shell(command(tmp_path, "(sleep 100; touch late) & echo begun", enclosure))
    assert (end.code, end.stdout, end.is_late) == (0, "begun\n", False)


@both
async def test_a_command_gets_sigterm_and_then_sigkill(
    tmp_path: Path, enclosure: Enclosure | None
) -> None:
    """§7.8: "after `timeout` SIGTERM to the group, SIGKILL 5 s later"."""
    polite = command(tmp_path, "trap 'echo bye; exit 4' TERM; sleep 100 & wait", enclosure)
    end = await run_shell(replace(polite, seconds=0.4))
    assert (end.code, end.stdout, end.is_late) == (4, "bye\n", True)
    stubborn = command(tmp_path, "trap '' TERM; while :; do sleep 100; done", enclosure)
    end = await run_shell(replace(stubborn, seconds=0.1))
    assert (end.is_late, end.stdout) == (True, "")


@pytest.mark.parametrize(
    ("most", "chunks", "text"),
    [
        (6, [b"abc", b"def"], "abcdef"),
        (6, [b"abcdefg"], "abc\n[1 bytes are left out]\nefg"),
        (4, [b"a"] * 5 + [b"xy"], "aa\n[3 bytes are left out]\nxy"),
        (4, [], ""),
        (4, ["éé".encode()], "éé"),
        (2, ["éé".encode()], "\ufffd\n[2 bytes are left out]\n\ufffd"),
    ],
)
def test_a_long_stream_keeps_its_beginning_and_its_end(
    most: int, chunks: list[bytes], text: str
) -> None:
    kept = BoundedOutput(most)
    for chunk in chunks:
        kept.add(chunk)
    assert (kept.text(), kept.is_truncated) == (text, "left out" in text)


@both
async def test_a_cancelled_command_is_killed(tmp_path: Path, enclosure: Enclosure | None) -> None:
    waiting = command(tmp_path, "trap '' TERM; sleep 100 & wait", enclosure)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await run_shell(waiting)


async def test_endless_output_is_bounded(tmp_path: Path) -> None:
    end = await run_shell(replace(command(tmp_path, "yes"), seconds=0.4))
    assert (len(end.stdout) < 1100, end.is_truncated, end.is_late) == (True, True, True)


async def test_a_command_that_cannot_be_enclosed_does_not_run(tmp_path: Path) -> None:
    end = await run_shell(replace(command(tmp_path, "touch x"), environment={"A": "\0"}))
    assert end.refused == "embedded null byte"
    assert not (tmp_path / "x").exists()


async def test_leftovers_of_killed_commands_are_searched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"penstock-{1 << 30}-{NAMESPACE}-x"
    for _ in range(2):
        left.mkdir()
        leftovers = Leftovers()
        assert [*leftovers.once()] == [left]
        assert [*leftovers.once()] == []
        await run_shell(command(tmp_path, "true", None))
        assert not left.exists()
