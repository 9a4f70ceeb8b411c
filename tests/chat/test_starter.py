"""A message with nothing before it is written together with the start of its task."""

from collections.abc import Sequence

import pytest

from penstock.chat.message import NewMessage
from penstock.core.clock import SystemClock
from penstock.core.errors import NotFound
from penstock.core.events.events import Entry, Record, TaskResumed
from penstock.core.ids import LogId, ProfileId, SessionId
from penstock.core.profile import CHAT, LOCAL_PROFILE, Profile
from penstock.core.task import TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, say, wait
from penstock.store.logs.log import Lease, OnWay
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime


class CountedLog(MemoryLog):
    """Counts what came from outside, by how it came."""

    begun = sent = 0

    async def begin(
        self, log_id: LogId, entries: Sequence[Entry], owner: str, *, head: int
    ) -> tuple[Lease, Sequence[Record]] | None:
        begun = await super().begin(log_id, entries, owner, head=head)
        self.begun += begun is not None
        self.sent -= begun is not None
        return begun

    async def send(
        self,
        log_id: LogId,
        entries: Sequence[Entry],
        *,
        head: int | None = None,
        on_way: OnWay | None = None,
    ) -> Sequence[Record]:
        self.sent += 1
        return await super().send(log_id, entries, head=head, on_way=on_way)


async def test_each_message_of_a_quiet_conversation_is_one_write() -> None:
    log = CountedLog(SystemClock())
    model = ScriptedModel([say("one"), say("two")])
    async with memory_runtime(model=model, place=MemoryStorage(log=log)) as runtime:
        first = await runtime.chat("a")
        second = await runtime.chat("b", session_id=first.session_id)
    assert (first.content, second.content) == ("one", "two")
    assert (log.begun, log.sent) == (2, 0)
    events = [record.event for record in await log.read(LogId(first.session_id))]
    assert not [event for event in events if isinstance(event, TaskResumed)]


async def test_what_began_at_once_is_told_to_who_sent_it() -> None:
    async with memory_runtime(model=ScriptedModel([say("one")])) as runtime:
        sent = await runtime.send(NewMessage(content="a"))
        assert [record.seq for record in sent.records] == [1, 2, 3]
        assert sent.seq == 2
        await runtime.wait(sent.task_id)


async def test_a_message_behind_another_waits_for_its_turn() -> None:
    log, hold = CountedLog(SystemClock()), Hold()
    model = ScriptedModel([wait(hold) + say("one"), say("two")])
    async with memory_runtime(model=model, place=MemoryStorage(log=log)) as runtime:
        first = await runtime.send(NewMessage(content="a"))
        await hold.reached()
        second = await runtime.send(NewMessage(content="b", session_id=first.session_id))
        hold.release()
        reply = await runtime.wait(second.task_id)
    assert reply is not None
    assert (reply.content, second.records) == ("two", ())
    assert (log.begun, log.sent) == (1, 1)


async def test_a_conversation_that_is_not_at_hand_is_looked_up_first() -> None:
    log = CountedLog(SystemClock())
    place, model = MemoryStorage(log=log), ScriptedModel([say("one"), say("two")])
    async with memory_runtime(model=model, place=place) as runtime:
        first = await runtime.chat("a")
    async with memory_runtime(model=model, place=place) as runtime:
        await runtime.chat("b", session_id=first.session_id)
    assert (log.begun, log.sent) == (1, 1)


@pytest.mark.parametrize(
    ("profile", "agent"),
    [
        (Profile(profile_id=ProfileId("bob"), permissions=frozenset({CHAT})), "assistant"),
        (LOCAL_PROFILE, "other"),
    ],
)
async def test_a_conversation_of_somebody_else_is_not_there(profile: Profile, agent: str) -> None:
    async with memory_runtime(model=ScriptedModel([say("one")])) as runtime:
        first = await runtime.chat("a")
        runtime.parts.chat.agents.add(type(runtime.parts.chat.agents.get("assistant"))("other"))
        message = NewMessage(content="b", agent=agent, session_id=SessionId(first.session_id))
        with pytest.raises(NotFound):
            await runtime.send(message, profile)


async def test_who_closes_gives_back_what_was_begun() -> None:
    place = MemoryStorage()
    async with memory_runtime(model=ScriptedModel([say("one")]), place=place) as runtime:
        sent = await runtime.send(NewMessage(content="a"))
    async with memory_runtime(model=ScriptedModel([say("later")]), place=place) as runtime:
        reply = await runtime.wait(sent.task_id)
    assert reply is not None
    assert (reply.status, reply.content) in {
        (TaskStatus.SUCCEEDED, "one"),
        (TaskStatus.SUCCEEDED, "later"),
    }
