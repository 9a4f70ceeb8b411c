"""A story of time, killed at every write, effect and delivery, and beside another server.

The clocks of the servers run fast: what a process was sending when it died is sent again half a
minute later.
"""

import asyncio
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

import penstock
from penstock.app.background.signature import SECRETS
from tests.chaos.harness import Moment, Nursery
from tests.chaos.shop_story import SCHEDULE, Receiver, Story, check
from tests.kit.databases import empty_database

SPEED = 20
"""How much faster time passes for the servers."""
AT_ONCE = 6
"""Stories at the same time: most of each is a wait for its timers and webhooks."""
BESIDE = [Moment("commit", number, "any") for number in range(1, 22, 2)]
"""When a server dies beside another one: the how-manieth of its own commits."""


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    """Where servers come from."""
    opened = Nursery(speed=SPEED)
    yield opened
    opened.close()


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A project with a schedule that is due soon, and the secret of its webhook."""
    return filled(tmp_path / "template")


def filled(directory: Path, url: str = "") -> Path:
    """Make a project with the schedule and the secret."""
    directory.mkdir()

    async def fill() -> None:
        settings = {"database_url": url}
        async with penstock.open(directory, resume=False, settings=settings) as runtime:
            assert runtime.parts.storage.vault
            await runtime.parts.storage.vault.set(SECRETS, "hook", "a secret")
            await runtime.schedules.create(SCHEDULE)

    asyncio.run(fill())
    return directory


def moments_of(story: Story, nursery: Nursery) -> list[Moment]:
    """Tell a story without a crash, and list the moments it has."""
    with nursery.start(story.directory, None, signal.SIGKILL) as server:
        story.go_on(server)
        check(story, server)
    lines = (story.directory / "moments").read_text().splitlines()
    parted = (line.split(" ", 2) for line in lines)
    sent = enumerate(story.receiver.heard[story.directory.name], 1)
    receipts = [Moment("receipt", number, body["type"]) for number, body in sent]
    return [*(Moment(kind, int(number), label) for kind, number, label in parted), *receipts]


def survive(story: Story, nursery: Nursery, moment: Moment) -> str:
    """Kill a server at the moment, finish on another, and return what is certain of the effects."""
    with nursery.start(story.directory, moment, signal.SIGKILL) as first:
        if moment.kind == "receipt":
            story.receiver.victims[story.directory.name] = moment.number, first.pid
        story.go_on(first)
        is_reached = first.is_gone  # calls that end together may share a commit, or not
    with nursery.start(story.directory, None, signal.SIGKILL) as second:
        story.go_on(second)
        outcome = check(story, second)
    return outcome if is_reached else "not reached"


@pytest.mark.slow("some fifty stories, each over a crash of a real process")
def test_a_story_of_time_is_survived_at_every_moment(
    nursery: Nursery, template: Path, tmp_path: Path
) -> None:
    """Kill at every commit, effect and delivery; the invariants hold after each."""
    with Receiver() as receiver, ThreadPoolExecutor(AT_ONCE) as threads:

        def story(name: str) -> Story:
            return Story(shutil.copytree(template, tmp_path / name), receiver)

        moments = moments_of(story("quiet"), nursery)
        outcomes = Counter(
            threads.map(
                lambda each: survive(story(f"{each.kind}-{each.number}"), nursery, each), moments
            )
        )
    assert outcomes["each once"] >= 20
    assert outcomes.total() - outcomes["not reached"] >= 40


def survive_beside(story: Story, nursery: Nursery, moment: Moment) -> str:
    """Kill a server while another one works on the same database, and finishes the story."""
    dying = nursery.start(story.directory, moment, signal.SIGKILL)
    with nursery.start(story.directory, None, signal.SIGKILL) as second, dying:
        story.go_on(second)
        check(story, second)
        return "killed" if dying.is_gone else "not reached"


@pytest.mark.slow("some twenty stories, each with two real processes")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_story_is_survived_by_one_of_two_servers(
    nursery: Nursery, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    """Children, ticks, deliveries and reverts are those of either process; each happens once."""
    server = str(request.getfixturevalue("postgres")) if kind == "postgres" else ""
    source = empty_database(server) if server else ""
    template = filled(tmp_path / "template", source)

    def tell(receiver: Receiver, moment: Moment) -> str:
        directory = shutil.copytree(template, tmp_path / str(moment.number))
        url = copied(server, source, f"story_{moment.number}") if server else ""
        # With one place each, both have something to do.
        return survive_beside(Story(directory, receiver, url=url, slots=1), nursery, moment)

    with Receiver() as receiver, ThreadPoolExecutor(AT_ONCE) as threads:
        outcomes = Counter(threads.map(partial(tell, receiver), BESIDE))
    assert outcomes["killed"] >= len(BESIDE) / 2


def copied(server: str, source: str, name: str) -> str:
    """Copy a database, and return the address of the copy."""
    template = make_url(source).database
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    return make_url(server).set(database=name).render_as_string(hide_password=False)
