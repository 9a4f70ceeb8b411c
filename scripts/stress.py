"""Opens one new project from several processes at random offsets, repeatedly.

Each round makes a folder, and four processes open the project in it, all within 30 ms: two list
tasks, two chat, as `penstock tasks list` beside `penstock chat` does. In every other round they
open its database alone, all within 1 ms: the steps that exclude each other take less than that.
Prints what any of them ran into, and ends with 1 if there was something.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from hashlib import blake2b
from pathlib import Path

from penstock.app.opening import open_project
from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.chat.requests import NewMessage
from penstock.core.clock import SystemClock
from penstock.core.errors import PenstockError
from penstock.store.database import open_database
from penstock.store.projections import Page

CLOCK = SystemClock()
PROCESSES = 4
WITHIN_SECONDS = {"database": 0.001, "tasks": 0.03, "chat": 0.03}
KINDS = (("database",), ("tasks", "chat"))
"""What the processes of a round do, by turns."""


async def use(directory: Path, kind: str) -> None:
    """Open the project, as a command or as a server would, and use it for a moment."""
    settings = load(directory)
    chats = kind == "chat"
    if kind == "database":
        await (await open_database(settings.database)).close()
        return
    async with open_project(settings, load_project(settings), resumes=chats) as runtime:
        await runtime.parts.storage.projections.tasks(page=Page(limit=5))
        if chats:
            await runtime.requests.send(NewMessage(content="Hello"))


def live(directory: Path, kind: str, wait: float, result: int) -> None:
    """Be one process: wait, use the project, and say what went wrong."""
    said = f"{kind}: it ended before its time"
    try:
        asyncio.run(CLOCK.sleep(wait))
        asyncio.run(use(directory, kind))
        said = ""
    except PenstockError as error:
        said = f"{kind}: {type(error).__name__}: {str(error).replace(str(directory), '…')}"
    finally:
        os.write(result, said.encode())
        os._exit(0)


def chance(seed: int, turn: int, number: int) -> float:
    """Return a random number below 1, the same for the same seed."""
    drawn = blake2b(f"{seed}/{turn}/{number}".encode(), digest_size=4).digest()
    return int.from_bytes(drawn) / 2**32


def play(seed: int, turn: int) -> list[str]:
    """Play one round; returns what went wrong in it."""
    with tempfile.TemporaryDirectory() as folder:
        ends = []
        for number in range(PROCESSES):
            read, write = os.pipe()
            kinds = KINDS[turn % len(KINDS)]
            kind = kinds[number % len(kinds)]
            if not os.fork():
                wait = WITHIN_SECONDS[kind] * chance(seed, turn, number)
                live(Path(folder), kind, wait, write)
            os.close(write)
            ends.append(read)
        said = []
        for read in ends:
            with os.fdopen(read, encoding="utf-8") as pipe:
                said.append(pipe.read())
        for _ in ends:
            os.wait()
    return [each for each in said if each]


def main() -> None:
    """Play the rounds, and print what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    found = Counter[str]()
    for turn in range(chosen.rounds):
        found.update(play(chosen.seed, turn))
    for said, count in found.most_common():
        print(f"{count} times: {said}", file=sys.stderr)
    opened = chosen.rounds * PROCESSES
    print(f"{opened} openings in {chosen.rounds} new projects, {found.total()} failed")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
