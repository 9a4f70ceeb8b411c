"""The process dies at every write of a flow with code steps; the run always ends the same way."""

from collections import Counter
from typing import Any

import pytest

from penstock.chat.requests import TaskReply
from penstock.core.call import Effect
from penstock.core.events.events import CallSettled, NoteEmitted, TaskEnded
from penstock.core.events.flow_events import StepSettled, StepStarted
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.flows.steps.kind import CodeEnvironment
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from tests.kit.code_environment import place_of
from tests.kit.dying_log import DyingLog, live
from tests.kit.flows import RUN, WORKERS, see_through
from tests.kit.tools import Act, echo

pytestmark = pytest.mark.programs
FLOW = """
  - id: send
    type: code
    inputs: {to: "${{task}}"}
    outputs: [mailed, said, chance]
    tools: [mail, look]
  - id: route
    type: code-decision
    inputs: {said: "${{result.send.said}}"}
    branches: {yes: after, no: never}
    outputs: [looked]
    tools: [look]
  - {id: never, type: code}
  - {id: after, type: code, inputs: {chance: "${{result.send.chance}}"}, outputs: [same]}
"""
SEND = """
    export default async ({ to }, { logger }) => {
      logger("begun");
      const call = (tool_id) => flo.callTool({ tool_id, input: { to } });
      const chance = crypto.randomUUID();
      const [mailed] = await Promise.all([call("mail"), call("look"), call("look")]);
      const said = await flo.task.waitForUserMessage({ user_message: "Go on?" });
      const again = await call("mail");
      logger("done");
      return { mailed: [mailed.status, again.status], said: said.user_message, chance };
    };
"""
ROUTE = """
    export default async ({ said }) => {
      const looked = (await flo.callTool({ tool_id: "look", input: { n: 1 } })).output.n;
      return { branch: said, looked };
    };
"""
MODULES = {
    "send.ts": SEND,
    "route.mts": ROUTE,
    "never.js": "export default () => { throw new Error('never'); };",
    "after.js": "export const run = ({ chance }) => ({ same: chance.length });",
}
WRITES = 24
"""How often the run below is written to at most: neighbours go together."""


async def tell(
    code_environment: CodeEnvironment, log: DyingLog, clock: FakeClock
) -> tuple[TaskReply, dict[str, Act]]:
    """Run the flow in as many lives as it takes."""
    cast = {"mail": Act("mail", echo, effect=Effect.WRITE), "look": Act("look", echo)}
    limits = Limits(shutdown_seconds=0)
    place = place_of(code_environment, FLOW, MODULES, clock=clock, log=log, limits=limits)
    while True:
        async with memory_runtime(agents=WORKERS, tools=cast.values(), place=place) as runtime:
            reply = await live(runtime, log, see_through(runtime, {"text": "yes"}, task="ann"))
        if reply is not None:
            return reply, cast
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_run_killed_at_any_write_ends_the_same(
    code_environment: CodeEnvironment, writes: int, before: bool
) -> None:
    """The handler is entered again from the top; its settled host calls answer from the ledger."""
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    reply, cast = await tell(code_environment, log, clock)
    assert reply.envelope is not None
    result: dict[str, Any] = reply.envelope.output
    assert result["status"] == "success", result
    results = result["results"]
    assert {name: each["visits"] for name, each in results.items()} == {
        "send": 1,
        "route": 1,
        "never": 0,
        "after": 1,
    }
    assert results["send"]["said"] == "yes"
    assert results["route"]["branch"] == "yes"
    assert (results["route"]["looked"], results["after"]["same"]) == (1, 36)
    records = await log.read(LogId(RUN))
    events = [each.event for each in records]
    starts = Counter(each.path for each in records if isinstance(each.event, StepStarted))
    assert set(starts.values()) == {1}
    assert sum(isinstance(each, TaskEnded) for each in events) == 1
    assert sum(isinstance(each, StepSettled) for each in events) == 3
    mailed = [each for each in events if isinstance(each, CallSettled) and each.tool_id == "mail"]
    assert len(mailed) == 2
    assert len(cast["mail"].runs) <= 2
    printed = [each.payload for each in events if isinstance(each, NoteEmitted)]
    assert [each["text"] for each in printed if each] == ["begun", "done"]


async def test_every_write_of_the_run_is_tried(code_environment: CodeEnvironment) -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    await tell(code_environment, log, clock)
    assert WRITES - 8 <= log.writes <= WRITES
