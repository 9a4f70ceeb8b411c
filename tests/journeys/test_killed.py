"""The process dies at every write in turn; the conversation always ends the same way."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from penstock.chat.requests import TaskReply as Outcome
from penstock.core.call import Effect
from penstock.core.events.events import CallSettled, TaskEnded
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.task import Question, QuestionKind
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.assistant import assert_whole
from tests.kit.dying_log import DyingLog, live, outlived, see_through
from tests.kit.logs import code
from tests.kit.questions import ask_color, mail
from tests.kit.tools import Act, calling, together

pytestmark = pytest.mark.programs
WRITES = 27
"""How often the log of the story below is written when no process dies."""


class Cast:
    """The tools and the model of one story: calls at once, calls inside calls, two questions."""

    def __init__(self) -> None:
        self.look = Act("look", direct_call=True)
        self.note = Act("note", effect=Effect.WRITE, direct_call=True)
        self.mail = mail(direct_call=True)
        self.pay = Act("pay", effect=Effect.WRITE, idempotent=True)
        inner = Act("inner", calling("look", "mail", "note"), is_frame=True, direct_call=True)
        outer = Act("outer", together("note", "inner", "look"), is_frame=True)
        self.tools = [self.look, self.note, self.mail, self.pay, inner, outer]
        self.tools.append(Act("ask", ask_color, effect=Effect.NONE))
        first = call("look") + call("outer") + call("mail", to="ann") + call("pay", n=1)
        self.model = ScriptedModel({"Go": [first, call("ask") + call("note"), say("All done.")]})


def answers(question: Question) -> dict[str, Any]:
    approves = question.kind is QuestionKind.APPROVAL
    return {"decision": "approve"} if approves else {"value": "red"}


async def tell(cast: Cast, log: DyingLog) -> Outcome:
    """Run the story in as many processes as it takes."""
    return await outlived(log, "Go", answers, model=cast.model, tools=cast.tools)


async def test_the_story_without_a_crash() -> None:
    cast, clock = Cast(), FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    reply = await tell(cast, log)
    assert (reply.content, reply.iterations) == ("All done.", 3)
    assert log.writes == WRITES


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_story_killed_at_any_write_ends_the_same(writes: int, before: bool) -> None:
    cast, clock = Cast(), FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    reply = await tell(cast, log)
    assert reply.content == "All done."
    records = await log.read(LogId(reply.session_id))
    outcomes = [each.event for each in records if isinstance(each.event, CallSettled)]
    paths = Counter(each.path for each in records if isinstance(each.event, CallSettled))
    assert len(paths) == 12
    assert set(paths.values()) == {1}
    assert sum(isinstance(each.event, TaskEnded) for each in records) == 1
    assert {code(each) for each in outcomes} <= {"ok", "INTERRUPTED"}
    assert_whole(cast.model.requests[-1])
    for tool in (cast.note, cast.mail):
        values = [code(each) for each in outcomes if each.tool_id == tool.spec.tool_id]
        assert values.count("ok") <= len(tool.runs) <= len(values)
        assert all(tool.runs.count(each) == 1 for each in tool.runs)
    assert 1 <= len(cast.pay.runs) <= 2


async def test_a_cut_reply_starts_again_and_its_log_records_it() -> None:
    """docs/durability.md: "the reply begins again; the stream says so"."""
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    result: Outcome | None = None
    for reply in (say("Half of") + wait(dies := Hold()), say("All of it.")):
        async with memory_runtime(model=ScriptedModel([reply]), place=place) as runtime:
            telling = asyncio.ensure_future(
                live(runtime, log, see_through(runtime, "Go", lambda question: {}))
            )
            if reply.steps[-1] is dies:
                await dies.reached()
                log.died.set()
            result = await telling
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)
    assert result
    assert result.content == "All of it."
    kinds = [type(each.event).__name__ for each in await log.read(LogId(result.session_id))]
    assert kinds[3:] == ["TaskResumed", "ReplyRestarted", "ReplyReceived", "TaskEnded"]
