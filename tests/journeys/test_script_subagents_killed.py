"""The process dies at every write of a script that runs an agent in place."""

from collections import Counter

import pytest

from penstock.core.call import Effect
from penstock.core.events.events import CallSettled, ReplyReceived
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage
from tests.kit.dying_log import DyingLog
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act, echo

pytestmark = pytest.mark.programs
STORY = """
    export async function run() {
      const worker = { worker_kind: "matcher", title: "t", objective: "the apples", input: null };
      const first = await flo.task.runSubagent(worker as any);
      const said = await flo.task.waitForUserMessage({ user_message: "Go on?" });
      return [first.status, first.output_text, said.user_message];
    }
"""
WRITES = 10
"""The most writes of the log when no process dies: adjacent events share one."""


def told(project: ProjectFolder, writes: int, *, before: bool) -> tuple[Stage, Act]:
    """Return the story, with a log that dies, and the tool of its agent."""
    project.tool("story", STORY)
    clock, send = FakeClock(), Act("send", echo, effect=Effect.WRITE)
    log = DyingLog(clock, writes=writes, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    model = ScriptedModel({"the apples": [call("send", to="ann"), say("Sent.")]})
    return Stage(project, send, place=place, model=model), send


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_subagent_killed_at_any_write_does_its_work_once(
    project: ProjectFolder, writes: int, *, before: bool
) -> None:
    stage, send = told(project, writes, before=before)
    assert (await stage.survive("story", {})).output == ["completed", "Sent.", "yes"]
    records = await stage.place.log.read(LogId(stage.task_id))
    settled = Counter(each.path for each in records if isinstance(each.event, CallSettled))
    assert set(settled.values()) == {1}
    assert sum(isinstance(each.event, ReplyReceived) for each in records) == 2
    (sent,) = await stage.outcomes("send")
    assert len(send.runs) == 1 or (sent.error and sent.error.code == "INTERRUPTED")


async def test_every_write_of_the_story_is_tried(project: ProjectFolder) -> None:
    stage, _ = told(project, -1, before=False)
    await stage.survive("story", {})
    assert isinstance(log := stage.place.log, DyingLog)
    assert 7 <= log.writes <= WRITES
