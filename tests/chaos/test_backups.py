"""A backup of a server with 100 chats is whole; a killed restore or move leaves the old state."""

import asyncio
import json
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx2
import pytest

from penstock.core.limits import Limits
from penstock.store.repair import check, damaged_logs, gaps, mismatched_rows
from penstock.store.upkeep.backup import open_unprepared
from penstock.store.upkeep.contents import drifted
from tests.kit.server import CHAT

CHATS = 100
LONG = "word " * 10_000
"""Longer than `limits.body_bytes`, so that its event is a blob."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "trip"
    folder.mkdir()
    (folder / "penstock.toml").write_text("[rate_limits]\nchat = 100000\n")
    return folder


@pytest.fixture
def url(project: Path, tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "penstock", "serve", str(project), "--port", "0"]
    with (
        (tmp_path / "said").open("w+") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as server,
    ):
        assert server.stdout is not None
        found = re.search(r":(\d+)$", server.stdout.readline().strip())
        assert found, (tmp_path / "said").read_text()
        yield f"http://127.0.0.1:{found[1]}"
        server.terminate()
        server.stdout.read()
        said.seek(0)
        assert "Traceback" not in said.read()


def penstock(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


async def chat(client: httpx2.AsyncClient, number: int, done: asyncio.Event) -> int:
    """Talk until it is over; every third message is long. Return how many were answered."""
    more: dict[str, str] = {}
    count = 0
    while not done.is_set():
        content = LONG[: 40_000 + number] if count % 3 == 0 else f"hello {number}"
        answer = await client.post(CHAT, json={"content": content, **more})
        if answer.status_code == 503:
            continue
        assert answer.status_code == 200, answer.text
        more = {"conversationId": answer.json()["userMessage"]["conversationId"]}
        count += 1
    return count


@pytest.mark.slow("100 conversations run while two backups are made", seconds=240)
async def test_a_backup_taken_while_100_chats_run_is_whole(
    project: Path, url: str, tmp_path: Path
) -> None:
    done = asyncio.Event()
    async with httpx2.AsyncClient(base_url=url, timeout=120) as client:
        chats = [asyncio.create_task(chat(client, number, done)) for number in range(CHATS)]
        backups = []
        for number in range(2):
            folder = tmp_path / f"backup{number}"
            backups.append(
                await asyncio.to_thread(penstock, "backup", folder, "-p", project, "--json")
            )
        done.set()
        answered = await asyncio.gather(*chats)
    assert min(answered) >= 1
    for number, ran in enumerate(backups):
        assert ran.returncode == 0, ran.stderr
        made = json.loads(ran.stdout)
        assert (made["missing"], made["problems"]) == ([], [])
        folder = tmp_path / f"backup{number}"
        database, blobs = await open_unprepared(
            f"sqlite:///{folder}/penstock.db", str(folder / "blobs"), Limits()
        )
        assert (await check(database)).problems == ()
        # every log of the copy is whole, and gives the rows that the copy has
        assert await gaps(database) == ()
        assert [*await damaged_logs(database), *await mismatched_rows(database)] == []
        logs, drift = await drifted(database, blobs, most_events=10**6)
        assert (logs, drift) == (made["logs"], [])
        await database.close()
    assert json.loads(backups[1].stdout)["events"] > 0
    await asyncio.to_thread(check_restored, tmp_path)


def check_restored(place: Path) -> None:
    """A backup becomes a project in which `doctor` finds nothing, and which continues."""
    other = place / "other"
    other.mkdir()
    restored = penstock("restore", place / "backup1", "-p", other)
    assert restored.returncode == 0, restored.stderr
    examined = penstock("doctor", "-p", other)
    assert examined.returncode == 0, examined.stdout
    assert "✗" not in examined.stdout
    assert "✓ leases" in examined.stdout
    continued = penstock("chat", "hello again", "-p", other)
    assert continued.returncode == 0, continued.stderr


def test_a_target_that_is_full_gets_nothing(project: Path, tmp_path: Path) -> None:
    """A file that cannot grow, as on a full disk."""
    penstock("chat", LONG, "-p", project)
    kept = {each: each.read_bytes() for each in project.rglob("*") if each.is_file()}
    command = [
        sys.executable,
        "-m",
        "penstock",
        "backup",
        str(tmp_path / "one"),
        "-p",
        str(project),
    ]
    small = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=small,
    )
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    assert ran.stderr.startswith("Error: ")
    assert "Traceback" not in ran.stderr
    assert [each.name for each in tmp_path.iterdir()] == [project.name]
    assert kept == {each: each.read_bytes() for each in kept}


@pytest.mark.slow("starts and kills commands", seconds=240)
def test_a_killed_move_is_repeated(project: Path, tmp_path: Path) -> None:
    penstock("chat", LONG, "-p", project)
    old = count_of(project)
    kept, codes = tmp_path / "kept", set()
    shutil.copytree(project, kept)
    for delay in range(0, 12, 3):
        shutil.rmtree(project)
        shutil.copytree(kept, project)
        (tmp_path / "other.db").unlink(missing_ok=True)
        to = ["move", "--to", f"sqlite:///{tmp_path}/other.db", "-p", str(project)]
        with subprocess.Popen([sys.executable, "-c", DYING, str(delay), *to]) as process:
            process.wait()
        codes.add(process.returncode)
        assert count_of(project) == old
        if process.returncode != 0:
            again = penstock(*to)
            assert again.returncode == 0 or "is not empty" in again.stderr, again.stderr
        with closing(sqlite3.connect(tmp_path / "other.db")) as database:
            assert database.execute("SELECT count(*) FROM events").fetchone() == (old,)
            marks = "SELECT count(*) FROM installation WHERE name = 'moving'"
            assert database.execute(marks).fetchone() == (0,)
    assert -9 in codes


def count_of(project: Path) -> int:
    with closing(sqlite3.connect(project / ".penstock" / "penstock.db")) as database:
        count: int = database.execute("SELECT count(*) FROM events").fetchone()[0]
    return count


@pytest.mark.slow("starts and kills a dozen commands", seconds=240)
def test_a_killed_restore_leaves_the_old_state_or_the_new(project: Path, tmp_path: Path) -> None:
    penstock("chat", LONG, "-p", project)
    assert penstock("backup", tmp_path / "one", "-p", project).returncode == 0
    old = count_of(project)
    penstock("chat", "hello again", "-p", project)
    new = count_of(project)
    assert old != new
    kept = tmp_path / "kept"
    shutil.copytree(project, kept)
    states = set()
    for delay in range(8):
        shutil.rmtree(project)
        shutil.copytree(kept, project)
        command = ["restore", str(tmp_path / "one"), "--force", "-p", str(project)]
        with subprocess.Popen([sys.executable, "-c", DYING, str(delay), *command]) as process:
            process.wait()
        states.add(count_of(project))
        with closing(sqlite3.connect(project / ".penstock" / "penstock.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert states == {old, new}


DYING = """
import os, signal, sys
from penstock.cli.main import main
left = int(sys.argv[1]) * 4
def look(event, arguments):
    global left
    if event in {"os.rename", "os.link", "os.remove", "sqlite3.connect"} or (
        event == "open" and "restor" not in str(arguments[0]) and ".penstock" in str(arguments[0])
    ):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(look)
main(sys.argv[2:])
"""
