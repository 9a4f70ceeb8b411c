"""The process dies at every write of a flow in turn; the run always ends the same way."""

from collections import Counter

import pytest

from penstock.chat.requests import TaskReply
from penstock.core.call import Effect
from penstock.core.events.events import CallSettled, TaskEnded
from penstock.core.events.flow_events import StepStarted
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live
from tests.kit.flows import RUN, by_task, finish, flows_of, see_through, steps, worker
from tests.kit.tools import Act

pytestmark = pytest.mark.programs
WRITES = 27
"""How often the log of the run below is written when no process dies."""
FLOW = """
  - {id: web, agent: scout, task: web}
  - {id: code, agent: scout, task: code}
  - id: draft
    agent: writer
    blockedBy: [web, code]
    task: "draft ${{result.web.summary}}, ${{result.code.summary}}, ${{loop.again.iteration}}"
  - {id: again, agent: judge, task: again, loop_target: draft, exit_target: ask, max_iterations: 1}
  - {id: ask, question: "Publish?", options: [Yes, No], branches: {Yes: send, No: keep}}
  - {id: send, agent: sender, task: send}
  - {id: keep, agent: scout, task: keep}
  - {id: report, agent: writer, blockedBy: [send, keep], task: "report ${{result.send.summary}}"}
"""


class Cast:
    """The model and the one tool that writes."""

    def __init__(self) -> None:
        self.mail = Act("mail", effect=Effect.WRITE)
        self.model = ScriptedModel(
            by_task({"again": finish("again", branch="loop"), "send": self._send})
        )
        names = ("scout", "writer", "judge")
        self.agents = [*map(worker, names), worker("sender", tools=("mail",))]

    @staticmethod
    def _send(request: ModelRequest) -> ScriptedReply:
        return finish("sent") if len(request.messages) > 1 else call("mail", to="ann")


async def tell(cast: Cast, log: DyingLog, clock: FakeClock) -> TaskReply:
    """Run the flow in as many lives as it takes."""
    flows = flows_of(demo=steps(FLOW))
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0), flows=flows)
    while True:
        async with memory_runtime(
            model=cast.model, tools=[cast.mail], agents=cast.agents, place=place
        ) as runtime:
            reply = await live(runtime, log, see_through(runtime, {"value": "Yes"}, task="t"))
        if reply is not None:
            return reply
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_run_killed_at_any_write_ends_the_same(writes: int, before: bool) -> None:
    """Every resumed run ends as the uninterrupted one, with the same starts."""
    cast, clock = Cast(), FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    reply = await tell(cast, log, clock)
    assert reply.envelope is not None
    result = reply.envelope.output
    assert result["status"] == "success", result
    assert {name: each["visits"] for name, each in result["results"].items()} == {
        "web": 1,
        "code": 1,
        "draft": 2,
        "again": 2,
        "ask": 1,
        "send": 1,
        "keep": 0,
        "report": 1,
    }
    assert result["forks"] == {"ask": {"answer": "Yes"}}
    assert result["results"]["draft"]["summary"] == "draft web done, code done, 2 done"
    assert result["results"]["report"]["summary"] == "report sent done"
    records = await log.read(LogId(RUN))
    starts = Counter(each.path for each in records if isinstance(each.event, StepStarted))
    assert set(starts.values()) == {1}
    assert sum(isinstance(each.event, TaskEnded) for each in records) == 1
    outcomes = [each.event for each in records if isinstance(each.event, CallSettled)]
    mailed = [each for each in outcomes if each.tool_id == "mail"]
    assert len(mailed) == 1
    assert len(cast.mail.runs) <= 1


async def test_every_write_of_the_run_is_tried() -> None:
    cast, clock = Cast(), FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    await tell(cast, log, clock)
    assert log.writes == WRITES
