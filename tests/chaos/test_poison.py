"""A conversation that kills each process that resumes it fails at last, with the reason."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.limits import Limits
from tests.chaos.harness import Moment, Nursery, Talk

MAX_DEATHS = Limits().recoveries


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    """Where servers come from."""
    opened = Nursery()
    yield opened
    opened.close()


@pytest.mark.slow("six real processes, of which five are killed")
def test_a_process_that_dies_at_the_same_place_again_and_again(
    nursery: Nursery, tmp_path: Path
) -> None:
    """Each process dies during the model call; the sixth reports it instead of dying."""
    talk = Talk()
    asked = Moment("ask", 1, "the model is asked")
    for number in range(MAX_DEATHS + 1):
        with nursery.start(tmp_path, asked, signal.SIGKILL) as server:
            talk.go_on(server)
            assert server.is_gone == (number < MAX_DEATHS)
    assert talk.frames[-1][1]["type"] == "error"
    assert f"died {MAX_DEATHS} times in a row at the same place" in talk.frames[-1][1]["message"]
