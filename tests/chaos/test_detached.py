"""A function that calls others and does not wait for people: killed in its midst."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.harness import Moment, Nursery, Server, Talk, effects, events

ERRAND = "Do not wait."
WRITES = {"guarded", "inner 1", "posting"}


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    """Where servers come from."""
    opened = Nursery()
    yield opened
    opened.close()


def moments_of(nursery: Nursery, directory: Path) -> list[Moment]:
    """Run the conversation once without a crash, and list where calls begin, and all effects."""
    directory.mkdir()
    with nursery.start(directory, None, signal.SIGKILL) as server:
        talk = Talk(content=ERRAND)
        talk.go_on(server)
        assert check(talk, server, directory) == set()
    lines = (line.split(" ", 2) for line in (directory / "moments").read_text().splitlines())
    moments = [Moment(kind, int(number), label) for kind, number, label in lines]
    return [each for each in moments if each.kind == "effect" or "call_started" in each.label]


def check(talk: Talk, server: Server, directory: Path) -> set[str]:
    """Return what was interrupted: all else was done once, and a person was asked once."""
    assert talk.is_over
    happened = Counter(effects(directory))
    told = events(talk, server)
    (outcome,) = [
        each["body"]["envelope"]["output"]
        for each in told
        if each["kind"] == "call_settled" and each["body"]["tool_id"] == "hurried"
    ]
    posted, called, guarded = outcome
    of_guarded, of_inner = called or ["suspended", "failed"]
    said = {"posting": posted, "inner 1": of_inner, "guarded": guarded}
    cut = {name for name, status in said.items() if status == "failed"}
    assert of_guarded == "suspended"
    assert max(happened.values()) == 1
    assert WRITES - set(happened) <= cut
    assert [each["kind"] for each in told].count("question_asked") == 1
    return cut


@pytest.mark.slow("seven conversations, each over a crash of a real process")
def test_detached_calls_survive_a_kill_at_every_start_and_effect(
    nursery: Nursery, tmp_path: Path
) -> None:
    """SIGKILL around `wait=False`: a function that went on is not entered again."""
    outcomes = Counter[int]()
    for moment in moments_of(nursery, tmp_path / "quiet"):
        directory = tmp_path / f"{moment.kind}-{moment.number}"
        directory.mkdir()
        talk = Talk(content=ERRAND)
        with nursery.start(directory, moment, signal.SIGKILL) as first:
            talk.go_on(first)
        with nursery.start(directory, None, signal.SIGKILL) as second:
            talk.go_on(second)
            outcomes[len(check(talk, second, directory))] += 1
    assert outcomes[0]
