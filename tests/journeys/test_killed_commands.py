"""The process dies at every write of a slash command; it always ends the same way."""

import json
from collections import Counter
from typing import Any

import pytest

from penstock.chat.requests import TaskReply
from penstock.core.call import Effect
from penstock.core.events.events import CallSettled, ReplyReceived, TaskEnded, TaskStarted
from penstock.core.ids import LogId
from penstock.core.task import Question
from penstock.models.scripted import ScriptedModel
from penstock.testing.clock import FakeClock
from tests.kit.dying_log import DyingLog, outlived
from tests.kit.questions import mail
from tests.kit.tools import Act, calling

pytestmark = pytest.mark.programs
WRITES = 9
"""How often the log of the command below is written when no process dies."""


class Cast:
    """A frame that looks, and mails when a person says so."""

    def __init__(self) -> None:
        self.look = Act("look", direct_call=True)
        self.mail = mail(direct_call=True)
        frame = Act(
            "order", calling("look", "mail"), effect=Effect.WRITE, is_frame=True, direct_call=True
        )
        self.tools = [self.look, self.mail, frame]
        self.model = ScriptedModel([])


def approves(question: Question) -> dict[str, Any]:
    return {"decision": "approve"}


async def tell(cast: Cast, log: DyingLog) -> TaskReply:
    """Give the command in as many lives as it takes."""
    return await outlived(log, "/call order", approves, model=cast.model, tools=cast.tools)


async def test_the_command_without_a_crash() -> None:
    cast, clock = Cast(), FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    reply = await tell(cast, log)
    assert json.loads(reply.content)["output"] == ["success", "success"]
    assert log.writes == WRITES


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_command_killed_at_any_write_has_one_answer(writes: int, before: bool) -> None:
    cast, clock = Cast(), FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    reply = await tell(cast, log)
    assert json.loads(reply.content)["status"] == "success"
    kinds = Counter(type(each.event) for each in await log.read(LogId(reply.session_id)))
    assert [kinds[each] for each in (TaskStarted, ReplyReceived, TaskEnded)] == [1, 1, 1]
    assert kinds[CallSettled] == 3
    assert len(cast.mail.runs) <= 1
    assert cast.model.requests == []
