"""Messages, answers, cancels and direct calls: accepted, refused, repeated."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.builtins import TOOLS
from penstock.chat.requests import NewCall, NewMessage, RequestKey
from penstock.core.clock import SystemClock
from penstock.core.envelope import Status
from penstock.core.errors import (
    ConfigError,
    IdempotencyConflict,
    InvalidRequest,
    NotFound,
    SessionBusy,
    TaskOver,
)
from penstock.core.events.events import Entry, MessageReceived, Record, SessionOpened, TaskResumed
from penstock.core.ids import LogId, ProfileId, QuestionId, SessionId, TaskId
from penstock.core.limits import Limits
from penstock.core.profile import ADMIN, CHAT, LOCAL_PROFILE, Profile
from penstock.core.task import TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from penstock.store.logs.log import Lease, Listener, OnWay
from penstock.testing.clock import settle
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.logs import events
from tests.kit.tools import Act, Gate, echo

ANN = Profile(profile_id=ProfileId("ann"), permissions=frozenset({CHAT}))
BOB = Profile(profile_id=ProfileId("bob"), permissions=frozenset({CHAT}))
ROOT = Profile(profile_id=ProfileId("root"), permissions=frozenset({CHAT, ADMIN}))


async def test_a_sent_message_is_committed() -> None:
    hold = Hold()
    async with memory_runtime(model=ScriptedModel([wait(hold) + say("Hi")])) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hello  there"), ANN)
        opened, received = (await events(runtime, sent.session_id))[:2]
        hold.release()
    assert opened == SessionOpened(
        profile_id=ANN.profile_id, agent="assistant", title="Hello there"
    )
    assert isinstance(received, MessageReceived)
    assert (received.message_id, received.permissions) == (sent.message_id, (CHAT,))
    assert sent.seq == 2


async def test_a_title_is_the_first_line_clipped() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi")])) as runtime:
        reply = await ask(runtime, "word \n" * 100)
        session = await runtime.parts.storage.projections.find_session(reply.session_id)
    assert session
    assert len(session.title) == 60
    assert session.title.endswith("…")


@pytest.mark.parametrize("content", ["", "   ", "\n\t", "x" * 101])
async def test_a_blank_or_too_long_message_is_refused(content: str) -> None:
    place = MemoryStorage(limits=Limits(content_chars=100))
    async with memory_runtime(place=place) as runtime:
        with pytest.raises(InvalidRequest, match="/content"):
            await runtime.requests.send(NewMessage(content=content))


async def test_unknown_names_are_refused_before_anything_is_written() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi")])) as runtime:
        for message in (
            NewMessage(content="Hi", agent="nobody"),
            NewMessage(content="Hi", session_id=SessionId("conv_nowhere")),
        ):
            with pytest.raises(NotFound):
                await runtime.requests.send(message)
        with pytest.raises(ConfigError):
            await runtime.requests.send(NewMessage(content="Hi", model="no-such-model"))
        assert await runtime.parts.storage.log.pending(limit=9) == []


async def test_another_profile_does_not_find_a_conversation() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi")] * 3)) as runtime:
        reply = await ask(runtime, "Hello", profile=ANN)
        again = NewMessage(content="More", session_id=reply.session_id)
        with pytest.raises(NotFound):
            await runtime.requests.send(again, BOB)
        with pytest.raises(NotFound):
            await runtime.requests.cancel(reply.task_id, profile=BOB)
        sent = await runtime.requests.send(again, ROOT)
        assert await runtime.requests.wait(sent.task_id)


async def test_a_message_with_an_old_head_is_refused() -> None:
    """Also in an idle conversation, whose next message is written with the start of its task."""
    async with memory_runtime(model=ScriptedModel([say("Hi")] * 2)) as runtime:
        reply = await ask(runtime, "Hello")
        head = await runtime.parts.storage.log.head(LogId(reply.session_id))
        late = NewMessage(content="More", session_id=reply.session_id, head=head - 1)
        with pytest.raises(SessionBusy):
            await runtime.requests.send(late)
        sent = await runtime.requests.send(replace(late, head=head))
        assert await runtime.requests.wait(sent.task_id)


async def test_messages_of_one_conversation_are_answered_in_order() -> None:
    model = ScriptedModel(lambda request: say(str(len(request.messages))))
    async with memory_runtime(model=model) as runtime:
        first = await runtime.requests.send(NewMessage(content="1"))
        rest = [
            await runtime.requests.send(NewMessage(content=text, session_id=first.session_id))
            for text in "234"
        ]
        replies = [await runtime.requests.wait(each.task_id) for each in (first, *rest)]
    assert [reply.content for reply in replies if reply] == ["1", "3", "5", "7"]


async def test_a_wait_ends_at_its_timeout() -> None:
    hold = Hold()
    place = MemoryStorage(limits=Limits(poll_seconds=0.01, shutdown_seconds=0))
    async with memory_runtime(model=ScriptedModel([wait(hold)]), place=place) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hi"))
        assert await runtime.requests.wait(sent.task_id, seconds=0.02) is None
        assert await runtime.requests.wait(sent.task_id, seconds=0) is None


async def test_waiting_for_an_unknown_task_is_refused() -> None:
    async with memory_runtime() as runtime:
        with pytest.raises(NotFound):
            await runtime.requests.wait(TaskId("task_nowhere"))
        with pytest.raises(NotFound):
            await runtime.requests.cancel(TaskId("task_nowhere"))
        with pytest.raises(NotFound):
            await runtime.requests.answer(QuestionId("q_nowhere"), {"text": "yes"})


class FarLog(MemoryLog):
    """Notifies no later listener, as if its writers were in another process."""

    is_far = False

    def listen(self, listener: Listener, *, of_holders: bool = True) -> None:
        if not self.is_far:
            super().listen(listener, of_holders=of_holders)


async def test_polling_finds_the_end_of_a_task_in_another_process() -> None:
    limits, hold = Limits(poll_seconds=0.01), Hold()
    log = FarLog(SystemClock())
    place = MemoryStorage(limits=limits, log=log)
    model = ScriptedModel([wait(hold) + say("Done elsewhere.")])
    async with memory_runtime(model=model, place=place) as near:
        sent = await near.requests.send(NewMessage(content="Hi"))
        await hold.reached()
        log.is_far = True
        async with memory_runtime(model=model, place=place) as far:
            waiting = asyncio.ensure_future(far.requests.wait(sent.task_id))
            await settle()
            hold.release()
            reply = await waiting
    assert reply
    assert reply.content == "Done elsewhere."


async def test_an_ended_task_cannot_be_cancelled() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi")])) as runtime:
        reply = await ask(runtime, "Hello")
        with pytest.raises(TaskOver):
            await runtime.requests.cancel(reply.task_id)


async def test_a_second_cancel_has_no_effect() -> None:
    hold = Hold()
    async with memory_runtime(model=ScriptedModel([wait(hold)])) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hi"))
        await hold.reached()
        await asyncio.gather(
            runtime.requests.cancel(sent.task_id),
            runtime.requests.cancel(sent.task_id),
            return_exceptions=True,
        )
        reply = await runtime.requests.wait(sent.task_id)
        task = await runtime.parts.storage.projections.find_task(sent.task_id)
    assert reply
    assert task
    assert (reply.status, task.status) == (TaskStatus.CANCELLED, TaskStatus.CANCELLED)


@pytest.mark.parametrize("levels", [200, 900, 100_000])
async def test_an_endless_input_is_refused_before_it_becomes_a_task(levels: int) -> None:
    inner: list[object] = []
    for _ in range(levels - 1):
        inner = [inner]
    async with memory_runtime(tools=[Act("echo", echo, direct_call=True)]) as runtime:
        with pytest.raises(InvalidRequest, match="/input: must have at most 200 levels of nesting"):
            await runtime.call("echo", {"a": inner})


async def test_a_direct_call_is_a_task_of_its_own() -> None:
    tool = Act("look", echo, direct_call=True)
    async with memory_runtime(tools=[tool, Act("secret")]) as runtime:
        envelope = await runtime.call("look", {"at": "this"})
        assert envelope.output == {"at": "this"}
        for tool_id in ("secret", "nothing"):
            refused = await runtime.call(tool_id, {})
            assert refused.status is Status.FAILED
            assert refused.error
            assert refused.error.code == "TOOL_NOT_FOUND"


async def test_a_repeated_request_does_not_answer_its_own_question() -> None:
    model = ScriptedModel({"Hi": say("Hello."), "Ask me": call("ask_user", question="Which?")})
    async with memory_runtime(model=model, tools=TOOLS) as runtime:
        started = await ask(runtime, "Hi")
        message = NewMessage(
            content="Ask me", session_id=started.session_id, idempotency=RequestKey("key", "hash")
        )
        first = await runtime.requests.send(message)
        reply = await runtime.requests.wait(first.task_id)
        again = await runtime.requests.send(message)
        with pytest.raises(IdempotencyConflict):
            await runtime.requests.send(replace(message, idempotency=RequestKey("key", "other")))
        still = await runtime.requests.wait(first.task_id)
    assert replace(again, records=()) == replace(first, records=())
    assert reply
    assert still
    assert still.questions == reply.questions


def a_call(n: int, **more: Any) -> NewCall:
    return NewCall(tool_id="look", input={"n": n}, **more)


async def test_a_repeated_direct_call_with_a_key_is_made_once() -> None:
    """Spec: "The same key … the same `taskId`…; the tool runs once, also … at the same time"."""
    look, once = Act("look", direct_call=True), a_call(1, idempotency=RequestKey("key", "one"))
    async with memory_runtime(tools=[look]) as runtime:
        both = await asyncio.gather(runtime.start_call(once), runtime.start_call(once))
        await runtime.requests.wait(both[0])
        assert {*both, await runtime.start_call(once)} == {both[0]}
        with pytest.raises(IdempotencyConflict):
            await runtime.start_call(a_call(2, idempotency=RequestKey("key", "two")))
        other = await runtime.start_call(a_call(3, idempotency=RequestKey("other", "one")))
        await runtime.requests.wait(other)
    assert look.runs == [{"n": 1}, {"n": 3}]


async def test_a_direct_call_in_a_conversation_is_queued_behind_earlier_messages() -> None:
    gate = Gate()
    tools = [Act("slow", gate, direct_call=True), look := Act("look", direct_call=True)]
    async with memory_runtime(tools=tools) as runtime:
        session_id = (await ask(runtime, "Hi")).session_id
        first = await runtime.start_call(NewCall(tool_id="slow", input={}, session_id=session_id))
        await gate.reached()
        second = await runtime.start_call(a_call(1, session_id=session_id))
        assert look.runs == []
        gate.open()
        ends = [await runtime.requests.wait(each) for each in (first, second)]
        assert [each and each.session_id for each in ends] == [session_id, session_id]
        assert (await ask(runtime, "Hi again", session=session_id)).content


@pytest.mark.parametrize("session_id", ["conv_none", "theirs"])
async def test_a_direct_call_in_another_profile_s_conversation_is_refused(session_id: str) -> None:
    async with memory_runtime(tools=[Act("look", direct_call=True)]) as runtime:
        if session_id == "theirs":
            session_id = (await ask(runtime, "Hi")).session_id
        with pytest.raises(NotFound, match=f"there is no conversation '{session_id}'"):
            await runtime.start_call(a_call(1, session_id=SessionId(session_id)), BOB)


class CountedLog(MemoryLog):
    """Counts outside events by the way in which they were written."""

    started = sent = 0

    async def begin(
        self, log_id: LogId, entries: Sequence[Entry], owner: str, *, head: int
    ) -> tuple[Lease, Sequence[Record]] | None:
        started = await super().begin(log_id, entries, owner, head=head)
        self.started += started is not None
        self.sent -= started is not None
        return started

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


async def test_a_message_to_an_idle_conversation_is_one_write() -> None:
    log = CountedLog(SystemClock())
    model = ScriptedModel([say("one"), say("two")])
    async with memory_runtime(model=model, place=MemoryStorage(log=log)) as runtime:
        first = await ask(runtime, "a")
        second = await ask(runtime, "b", session=first.session_id)
    assert (first.content, second.content) == ("one", "two")
    assert (log.started, log.sent) == (2, 0)
    events = [record.event for record in await log.read(LogId(first.session_id))]
    assert not [event for event in events if isinstance(event, TaskResumed)]


async def test_a_task_that_started_at_once_is_returned_with_its_events() -> None:
    async with memory_runtime(model=ScriptedModel([say("one")])) as runtime:
        sent = await runtime.requests.send(NewMessage(content="a"))
        assert [record.seq for record in sent.records] == [1, 2, 3]
        assert sent.seq == 2
        await runtime.requests.wait(sent.task_id)


async def test_a_message_behind_another_is_queued() -> None:
    log, hold = CountedLog(SystemClock()), Hold()
    model = ScriptedModel([wait(hold) + say("one"), say("two")])
    async with memory_runtime(model=model, place=MemoryStorage(log=log)) as runtime:
        first = await runtime.requests.send(NewMessage(content="a"))
        await hold.reached()
        second = await runtime.requests.send(NewMessage(content="b", session_id=first.session_id))
        hold.release()
        reply = await runtime.requests.wait(second.task_id)
    assert reply is not None
    assert (reply.content, second.records) == ("two", ())
    assert (log.started, log.sent) == (1, 1)


async def test_a_conversation_outside_the_cache_is_looked_up_first() -> None:
    log = CountedLog(SystemClock())
    place, model = MemoryStorage(log=log), ScriptedModel([say("one"), say("two")])
    async with memory_runtime(model=model, place=place) as runtime:
        first = await ask(runtime, "a")
    async with memory_runtime(model=model, place=place) as runtime:
        await ask(runtime, "b", session=first.session_id)
    assert (log.started, log.sent) == (1, 1)


@pytest.mark.parametrize(
    ("profile", "agent"),
    [
        (Profile(profile_id=ProfileId("bob"), permissions=frozenset({CHAT})), "assistant"),
        (LOCAL_PROFILE, "other"),
    ],
)
async def test_another_profile_s_conversation_is_not_found(profile: Profile, agent: str) -> None:
    async with memory_runtime(model=ScriptedModel([say("one")])) as runtime:
        first = await ask(runtime, "a")
        runtime.parts.chat.agents.add(type(runtime.parts.chat.agents.get("assistant"))("other"))
        message = NewMessage(content="b", agent=agent, session_id=SessionId(first.session_id))
        with pytest.raises(NotFound):
            await runtime.requests.send(message, profile)


async def test_a_task_that_started_before_the_close_is_resumed() -> None:
    place = MemoryStorage()
    async with memory_runtime(model=ScriptedModel([say("one")]), place=place) as runtime:
        sent = await runtime.requests.send(NewMessage(content="a"))
    async with memory_runtime(model=ScriptedModel([say("later")]), place=place) as runtime:
        reply = await runtime.requests.wait(sent.task_id)
    assert reply is not None
    assert (reply.status, reply.content) in {
        (TaskStatus.SUCCEEDED, "one"),
        (TaskStatus.SUCCEEDED, "later"),
    }
