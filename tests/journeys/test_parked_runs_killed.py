"""The process dies at every write of a chat that waits for a run; it always ends the same way."""

from collections import Counter

import pytest

from penstock.chat.requests import TaskReply
from penstock.core.events.events import CallSettled, TaskEnded
from penstock.core.ids import LogId
from penstock.core.task import Question, TaskStatus
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from tests.kit.dying_log import DyingLog, live, see_through
from tests.kit.waiting_chat import RUNTIME, model, place, runs, tight

pytestmark = pytest.mark.programs
WRITES = {"asks": 15, "outer": 24}
"""How often the logs of the stories below are written when no process dies."""


def answers(question: Question) -> dict[str, str]:
    return {"value": "Yes"}


async def tell(workflow: str, log: DyingLog, clock: FakeClock) -> tuple[TaskReply, int]:
    """Run the story in as many processes as it needs; return how many other runs there were."""
    here = place(clock=clock, log=log, limits=tight(shutdown_seconds=0, flow_runs=1))
    while True:
        async with memory_runtime(model=model(), place=here, **RUNTIME) as runtime:
            reply = await live(runtime, log, see_through(runtime, workflow, answers))
            if reply is not None:
                return reply, len(await runs(runtime))
        log.revive()
        clock.advance(here.limits.lease_seconds + 1)


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize(
    ("workflow", "writes"), [(name, n + 1) for name, most in WRITES.items() for n in range(most)]
)
async def test_a_story_killed_at_any_write_ends_the_same(
    workflow: str, writes: int, before: bool
) -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    reply, count = await tell(workflow, log, clock)
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "All done.")
    assert count == (1 if workflow == "asks" else 2)
    records = await log.read(LogId(reply.session_id))
    paths = Counter(each.path for each in records if isinstance(each.event, CallSettled))
    assert list(paths.values()) == [1]
    assert sum(isinstance(each.event, TaskEnded) for each in records) == 1
    assert await log.pending(limit=9) == []


@pytest.mark.parametrize(("workflow", "writes"), WRITES.items())
async def test_every_write_of_the_story_is_tried(workflow: str, writes: int) -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    await tell(workflow, log, clock)
    assert log.writes == writes
