"""The limits of an enclosed command: what it can see, write and reach."""

import asyncio
import sys
from pathlib import Path

import pytest

from penstock.sandbox.processes.shell import Enclosure, ShellCommand, ShellEnd, run_shell


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    for name in (".env", ".penstock/db", ".git/config", "src/gen/x", "outside"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("secret\n")
    (tmp_path / "near").write_text("secret\n")
    (project / "out").symlink_to("../near")
    return project


async def enclosed(project: Path, text: str, **more: object) -> ShellEnd:
    passed = {"hidden": (".env", ".penstock"), "kept": (".git",), "writable": ("src/gen",), **more}
    enclosure = Enclosure(**passed)  # type: ignore[arg-type]
    return await run_shell(
        ShellCommand(text=text, folder=project, enclosure=enclosure, seconds=5, max_bytes=10_000)
    )


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "cat .env",
        "cat .penstock/db",
        "cat out",
        "cat ../near",
        "cat /etc/shadow",
        "ls /root/* /home/*/.ssh",
        "umount .env && cat .env",
        "umount -l .penstock; cat .penstock/db",
        "unshare -Urm sh -c 'umount .env; cat .env'",
        "mv .env x; cat x",
        "ln .env x; cat x",
        "cat /proc/1/root/../near /proc/1/environ /proc/1/cwd/.env",
    ],
)
async def test_hidden_files_cannot_be_read(project: Path, text: str) -> None:
    end = await enclosed(project, text, writable=("",))
    assert (end.refused, "secret" in end.stdout) == ("", False)
    assert (project / ".env").read_text() == "secret\n"


@pytest.mark.parametrize(
    "text",
    [
        "echo x > outside",
        "echo x > new",
        "rm outside",
        "mv src/gen/x outside",
        "echo x > .git/config",
        "echo x > out; false",
        "mkdir src/other",
        "chmod 0 outside && false",
        "mount -o remount,rw .git && echo x > .git/config",
        "echo x > /usr/x",
        "echo x > /etc/x",
        "echo x > /new",
    ],
)
async def test_only_writable_folders_can_be_written(project: Path, text: str) -> None:
    end = await enclosed(project, text)
    assert (end.refused, end.code == 0) == ("", False)
    assert (project / "outside").read_text() == (project / ".git/config").read_text() == "secret\n"
    assert (project.parent / "near").read_text() == "secret\n"
    assert names(project) == [".env", ".git", ".penstock", "out", "outside", "src"]


@pytest.mark.parametrize(
    "text",
    [
        "echo x > src/gen/new",
        "mkdir src/gen/a && mv src/gen/x src/gen/a",
        "echo x > ~/a",
        "echo x > /tmp/a",
    ],
)
async def test_writable_folders_can_be_written(project: Path, text: str) -> None:
    assert (await enclosed(project, text)).stderr == ""


async def test_a_command_sees_no_other_processes_and_has_no_capabilities(project: Path) -> None:
    end = await enclosed(project, "ls /proc | grep -c '^[0-9]'; grep -h CapEff /proc/self/status")
    processes, powers = end.stdout.split("\n")[:2]
    assert int(processes) < 6
    assert powers.split()[1] == "0" * 16


@pytest.mark.parametrize(("network", "answered"), [(False, "no"), (True, "yes")])
async def test_a_command_reaches_the_network_only_if_allowed(
    project: Path, *, network: bool, answered: str
) -> None:
    """§12.3: "no network unless `shell_network = true`"."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"
    python = Path(sys.base_prefix, "bin", "python3")
    end = await enclosed(
        project, f'{python} -c "{program}" && echo yes || echo no', network=network
    )
    server.close()
    await server.wait_closed()
    assert end.stdout == f"{answered}\n"


async def test_a_project_that_is_the_whole_system_is_refused() -> None:
    end = await enclosed(Path("/"), "true")
    assert end.refused == "the project is the whole system"


PYTHON = Path(sys.base_prefix, "bin", "python3")
FORKS = (
    "import os, time\n"
    "for _ in range(200):\n  try:\n    if not os.fork(): time.sleep(60)\n"
    "  except OSError: break\n"
    "time.sleep(60)"
)
THREADS = (
    "import threading, time\n"
    "for _ in range(200):\n  try: threading.Thread(target=time.sleep, args=[60]).start()\n"
    "  except RuntimeError: break\n"
)
"""RLIMIT_NPROC does not hold for root; for other users it is reached before the count."""
SHARES = (
    "import os, time\n"
    "for _ in range(4):\n  if not os.fork(): kept = b'x' * (40 << 20); time.sleep(60)\n"
    "time.sleep(60)"
)


@pytest.mark.slow("the bound is looked at five times a second")
@pytest.mark.parametrize(
    ("program", "memory_mb", "bound"),
    [
        (FORKS, 4000, "more than 50 processes and threads (limits.shell_processes)"),
        (THREADS, 4000, "more than 50 processes and threads (limits.shell_processes)"),
        (SHARES, 100, "more than 100 MiB of memory (limits.shell_memory_mb)"),
    ],
    ids=["processes", "threads", "memory of several"],
)
async def test_a_command_beyond_its_bounds_is_stopped(
    project: Path, program: str, memory_mb: int, bound: str
) -> None:
    command = f'{PYTHON} -c "{program}"'
    end = await enclosed(project, command, processes=50, memory_mb=memory_mb)
    assert (end.code, end.is_late) == (-9, False)
    assert end.stderr.endswith(f"penstock stopped this: it has {bound}\n")


async def test_one_process_cannot_allocate_more_than_its_memory(project: Path) -> None:
    program = "try: kept = b'x' * (300 << 20)\nexcept MemoryError: print('no')"
    end = await enclosed(project, f'{PYTHON} -c "{program}"', memory_mb=100)
    assert (end.code, end.stdout) == (0, "no\n")
