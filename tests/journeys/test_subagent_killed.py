"""The process dies at every write of a chat with a subagent; it always ends the same way."""

from collections import Counter
from typing import Any

import pytest

from penstock.builtins.ask_user import TOOLS as ASK_USER
from penstock.builtins.subagent import TOOLS as SUBAGENT
from penstock.chat.requests import TaskReply
from penstock.core.call import Effect
from penstock.core.events.events import CallSettled, TaskEnded
from penstock.core.events.flow_events import AgentStarted
from penstock.core.ids import LogId
from penstock.core.messages import ToolMessage
from penstock.core.task import Question
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.testing.clock import FakeClock
from penstock.tools.tool import Tool
from tests.kit.dying_log import DyingLog, outlived
from tests.kit.flows import finish, worker
from tests.kit.tools import Act

pytestmark = pytest.mark.programs
WRITES = 12
"""How often the log of the story below is written when no process dies."""
AGENTS = [worker("sender", tools=("mail",))]
INNER = [call("ask_user", question="To whom?", type="input"), call("mail"), finish("sent")]
OUTER = [call("subagent", agent="sender", task="send"), say("All sent.")]


def answer(request: ModelRequest) -> ScriptedReply:
    """Answer by how many calls have their results."""
    is_session = any(tool.name == "finish" for tool in request.tools)
    done = sum(isinstance(each, ToolMessage) for each in request.messages)
    return (INNER if is_session else OUTER)[done]


def answers(question: Question) -> dict[str, Any]:
    return {"text": "ann"}


async def tell(mail: Act, log: DyingLog) -> TaskReply:
    """Run the story in as many processes as it takes."""
    tools: list[Tool] = [*SUBAGENT, *ASK_USER, mail]
    model = ScriptedModel(answer)
    return await outlived(log, "Go", answers, model=model, tools=tools, agents=AGENTS)


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_story_killed_at_any_write_ends_the_same(writes: int, before: bool) -> None:
    mail, clock = Act("mail", effect=Effect.WRITE), FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    reply = await tell(mail, log)
    assert reply.content == "All sent."
    records = await log.read(LogId(reply.session_id))
    paths = Counter(each.path for each in records if isinstance(each.event, CallSettled))
    assert set(paths.values()) == {1}
    events = [each.event for each in records]
    names = sorted(each.tool_id for each in events if isinstance(each, CallSettled))
    assert names == ["ask_user", "finish", "mail", "subagent"]
    assert sum(isinstance(each, AgentStarted) for each in events) == 1
    assert sum(isinstance(each, TaskEnded) for each in events) == 1
    assert len(mail.runs) <= 1


async def test_every_write_of_the_story_is_tried() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    await tell(Act("mail", effect=Effect.WRITE), log)
    assert log.writes == WRITES
