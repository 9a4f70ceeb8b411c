"""Forks: a copy of a task continues from an event in its middle; the task stays as it is."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import penstock
from penstock.agents.agent import Agent
from penstock.chat.recorded.fork import Fork, ForkRequest
from penstock.chat.requests import NewMessage, NewRun, run_requested
from penstock.core.envelope import Status
from penstock.core.errors import InvalidRequest, NotFound, TextErased
from penstock.core.events.events import (
    CallSettled,
    Entry,
    MessageReceived,
    Record,
    ReplyReceived,
    TaskStarted,
)
from penstock.core.events.flow_events import FlowRequested
from penstock.core.events.history_events import Forked
from penstock.core.ids import LogId, SessionId, TaskId
from penstock.core.limits import Limits
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.python.function import tool


class Shop:
    """A tool that writes, and how often it ran."""

    def __init__(self) -> None:
        self.bought: list[str] = []

    @property
    def tools(self) -> list[Any]:
        @tool
        def buy(item: str) -> str:
            """Buy an item."""
            self.bought.append(item)
            return f"bought {item}"

        @tool(requires_approval=True)
        def send(to: str) -> str:
            """Send a mail."""
            self.bought.append(to)
            return f"sent to {to}"

        return [buy, send]


def replies() -> ScriptedModel:
    """Return a model that buys, then says how many messages it has read."""
    return ScriptedModel(
        lambda request: (
            say(f"I read {len(request.messages)}.")
            if any(type(each).__name__ == "ToolMessage" for each in request.messages[-1:])
            else call("buy", item=request.messages[-1].content)
        )
    )


async def records(runtime: Any, log_id: str) -> list[Record]:
    return list(await runtime.parts.storage.log.read(LogId(log_id)))


async def of_kind(runtime: Any, log_id: str, kind: type) -> Record:
    return next(each for each in await records(runtime, log_id) if isinstance(each.event, kind))


async def forked(runtime: Any, task_id: str, seq: int, **more: Any) -> Fork:
    made: Fork = await runtime.requests.fork(task_id, ForkRequest(seq=seq, **more))
    return made


async def test_a_copy_continues_from_the_event_and_runs_nothing_again() -> None:
    """Spec: "Settled calls stay settled"."""
    shop = Shop()
    async with memory_runtime(model=replies(), tools=shop.tools) as runtime:
        first = await runtime.chat("tea")
        before = await records(runtime, first.session)
        settled = await of_kind(runtime, first.session, CallSettled)
        fork = await forked(runtime, first.task_id, settled.seq)
        reply = await runtime.attach(fork.task_id).reply()
        assert shop.bought == ["tea"]
        assert (reply.content, reply.session) == (first.content, fork.log_id)
        assert [each.text for each in await runtime.history(fork.log_id)] == ["tea", first.content]
        assert await records(runtime, first.session) == before
        copied = await of_kind(runtime, fork.log_id, Forked)
    assert copied.event == Forked(
        from_task=TaskId(first.task_id), from_log=LogId(first.session), seq=settled.seq
    )
    (effect,) = fork.effects
    assert (effect.path, effect.tool, effect.status) == (("buy",), "buy", "success")


async def test_no_id_of_the_other_task_is_in_the_copy() -> None:
    shop = Shop()
    async with memory_runtime(model=replies(), tools=shop.tools) as runtime:
        first = await runtime.chat("tea")
        second = await runtime.chat("milk", session=first.session)
        end = (await records(runtime, first.session))[-1]
        fork = await forked(runtime, second.task_id, end.seq)
        await runtime.attach(fork.task_id).reply()
        copy = await records(runtime, fork.log_id)
        kept = [each for each in copy if not isinstance(each.event, Forked)]
        assert len(kept) == end.seq
        for old in (first.task_id, second.task_id, first.session):
            assert old not in str(kept)
        sessions = await runtime.sessions()
    assert {each.title for each in sessions} == {"tea", "Fork of tea"}
    assert {each.messages for each in sessions} == {4}


async def test_a_write_that_was_open_is_interrupted_in_the_copy() -> None:
    """Spec: "`write` calls open at `seq` are `INTERRUPTED`"."""
    shop = Shop()
    async with memory_runtime(model=replies(), tools=shop.tools) as runtime:
        first = await runtime.chat("tea")
        settled = await of_kind(runtime, first.session, CallSettled)
        fork = await forked(runtime, first.task_id, settled.seq - 1)
        await runtime.attach(fork.task_id).reply()
        outcome = (await of_kind(runtime, fork.log_id, CallSettled)).event
    assert [each.status for each in fork.effects] == ["interrupted"]
    assert isinstance(outcome, CallSettled)
    assert (outcome.envelope.status, outcome.envelope.error and outcome.envelope.error.code) == (
        Status.FAILED,
        "INTERRUPTED",
    )
    assert shop.bought == ["tea"]


async def test_an_open_question_is_asked_again_in_the_copy() -> None:
    """Spec: "open questions are asked anew"."""
    shop = Shop()
    model = ScriptedModel([call("send", to="ann"), say("Done."), say("Done.")])
    async with memory_runtime(model=model, tools=shop.tools) as runtime:
        first = await runtime.chat("mail")
        (question,) = first.questions
        newest = (await records(runtime, first.session))[-1]
        fork = await forked(runtime, first.task_id, newest.seq)
        copy = await runtime.attach(fork.task_id).reply()
        (again,) = copy.questions
        assert again.id != question.id
        for reply in (first, copy):
            assert (await runtime.answer(reply, True)).content == "Done."  # noqa: FBT003
    assert shop.bought == ["ann", "ann"]


async def test_a_message_can_be_changed_and_given_to_another_agent() -> None:
    shop = Shop()
    async with memory_runtime(model=replies(), tools=shop.tools) as runtime:
        first = await runtime.chat("tea")
        start = await of_kind(runtime, first.session, TaskStarted)
        fork = await forked(
            runtime,
            first.task_id,
            start.seq - 1,
            content="milk",
            title="Other",
            agent="assistant",
        )
        await runtime.attach(fork.task_id).reply()
        titles = {each.title for each in await runtime.sessions()}
    assert (shop.bought, fork.effects, titles) == (["tea", "milk"], (), {"tea", "Other"})


@pytest.mark.parametrize(
    ("seq", "changes", "field"),
    [
        (99, {}, "/seq"),
        (1, {}, "/seq"),
        (3, {"agent": "assistant"}, "/agent"),
        (3, {"content": "milk"}, "/content"),
    ],
)
async def test_what_cannot_be_forked_is_refused(
    seq: int, changes: dict[str, str], field: str
) -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi.")])) as runtime:
        first = await runtime.chat("tea")
        with pytest.raises(InvalidRequest) as refused:
            await forked(runtime, first.task_id, seq, **changes)
        with pytest.raises(NotFound):
            await forked(runtime, "task_other", 2)
        with pytest.raises(NotFound):
            await forked(runtime, first.task_id, 2, agent="nobody")
    assert [each["field"] for each in refused.value.problems] == [field]


async def test_a_direct_call_is_forked_into_a_task_of_its_own() -> None:
    @tool(direct_call=True, effect="read")
    def look(item: str) -> str:
        """Look at an item."""
        return f"a {item}"

    async with memory_runtime(tools=[look]) as runtime:
        task_id = TaskId("task_call")
        await runtime.call("look", {"item": "cup"}, task_id=task_id)
        fork = await forked(runtime, task_id, 1)
        reply = await runtime.requests.wait(fork.task_id)
    assert fork.session is None
    assert reply is not None
    assert reply.envelope is not None
    assert reply.envelope.output == "a cup"


async def test_erased_text_is_not_copied(tmp_path: Path) -> None:
    """Spec: "409 `ERASED` (a body up to `seq` is gone)"."""
    model = ScriptedModel([say("One."), say("Two.")])
    async with penstock.open(tmp_path, model=model) as runtime:
        first = await runtime.chat("tea")
        second = await runtime.chat("milk", session=first.session)
        end = (await records(runtime, first.session))[-1].seq
        parts = runtime.parts.storage.database_parts
        assert parts is not None
        await parts.erasure.erase_messages(
            LogId(first.session), TaskId(first.task_id), user=True, answer=True
        )
        with pytest.raises(TextErased):
            await forked(runtime, second.task_id, end)


async def test_large_bodies_are_copied_on_disk(tmp_path: Path) -> None:
    model = ScriptedModel([say("x" * 100_000), say("Again.")])
    async with penstock.open(tmp_path, model=model) as runtime:
        first = await runtime.chat("tea")
        reply = await of_kind(runtime, first.session, ReplyReceived)
        fork = await forked(runtime, first.task_id, reply.seq)
        assert (await runtime.attach(fork.task_id).reply()).content == first.content


class Mails:
    """A tool that needs an approval, and a model that calls it for messages such as "mail ann"."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    @property
    def tools(self) -> list[Any]:
        @tool(requires_approval=True)
        def send(to: str) -> str:
            """Send a mail."""
            self.sent.append(to)
            return "sent"

        return [send]

    @property
    def model(self) -> ScriptedModel:
        def answer(request: Any) -> Any:
            newest = request.messages[-1]
            text = getattr(newest, "content", "")
            if type(newest).__name__ == "UserMessage" and text.startswith("mail"):
                return call("send", to=text)
            return say(f"re: {text}")

        return ScriptedModel(answer)


async def test_a_conversation_with_a_cancelled_question_can_be_forked() -> None:
    mails = Mails()
    async with memory_runtime(model=mails.model, tools=mails.tools) as runtime:
        first = await runtime.chat("mail ann")
        await runtime.requests.cancel(first.task_id)
        await runtime.requests.wait(first.task_id)
        second = await runtime.chat("tea", session=first.session)
        reply = (await records(runtime, first.session))[-2]
        fork = await forked(runtime, second.task_id, reply.seq)
        assert (await runtime.attach(fork.task_id).reply()).content == "re: tea"


async def test_other_tasks_that_had_not_ended_are_not_in_the_copy() -> None:
    """The conversation answers its own queue; the copy would do the same work a second time."""
    release, started = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_here() -> str:
        """Wait."""
        started.set()
        await release.wait()
        return "waited"

    def answer(request: Any) -> Any:
        return call("wait_here") if request.messages[-1].content == "first" else say("Yes.")

    async with memory_runtime(model=ScriptedModel(answer), tools=[wait_here]) as runtime:
        first = await runtime.requests.send(NewMessage(content="first"))
        await started.wait()
        log_id = LogId(first.session_id)
        queued = [
            await runtime.requests.send(NewMessage(content=each, session_id=SessionId(log_id)))
            for each in ("second", "third")
        ]
        newest = (await records(runtime, log_id))[-1]
        fork = await forked(runtime, queued[1].task_id, newest.seq)
        reply = await runtime.attach(fork.task_id).reply()
        assert reply.content == "Yes."
        assert [each.text for each in await runtime.history(fork.log_id)] == ["third", "Yes."]
        release.set()
        await runtime.requests.wait(queued[1].task_id)


@pytest.mark.parametrize(
    ("recorded", "forks", "copied"),
    [
        (("chat", "deploy"), ("chat",), ("chat",)),
        (("admin",), ("chat",), ("chat",)),
        (("chat",), ("admin", "chat"), ("chat",)),
        (("chat", "deploy"), ("admin",), ("chat", "deploy")),
    ],
)
async def test_a_fork_has_no_permission_that_its_profile_lacks(
    recorded: tuple[str, ...], forks: tuple[str, ...], copied: tuple[str, ...]
) -> None:
    """Two keys of one profile: the weaker one must not act with what the stronger one may do."""
    strong, weak = Profile.named("ann", *recorded), Profile.named("ann", *forks)
    async with memory_runtime(model=ScriptedModel([say("One."), say("Two.")])) as runtime:
        sent = await runtime.requests.send(NewMessage(content="tea"), strong)
        await runtime.requests.wait(sent.task_id)
        fork = await runtime.requests.fork(sent.task_id, ForkRequest(seq=2), profile=weak)
        event = (await of_kind(runtime, fork.log_id, MessageReceived)).event
    assert isinstance(event, MessageReceived)
    assert event.permissions == copied


async def test_a_link_to_one_conversation_forks_nothing() -> None:
    async with memory_runtime(model=ScriptedModel([say("One.")])) as runtime:
        first = await runtime.chat("tea")
        guest = replace(runtime.local, session_id=SessionId(first.session))
        with pytest.raises(NotFound, match="cannot fork"):
            await runtime.requests.fork(first.task_id, ForkRequest(seq=2), profile=guest)


async def test_the_chosen_agent_answers_although_the_conversation_was_handed_off() -> None:
    model = ScriptedModel([call("transfer_to_helper"), say("H."), say("A."), say("C.")])
    front = Agent("front", instructions="You greet.", handoffs=["helper"])
    others = [Agent(each, instructions=f"You are the {each}.") for each in ("helper", "other")]
    async with memory_runtime(model=model, agents=[front, *others]) as runtime:
        first = await runtime.chat("tea", agent="front")
        second = await runtime.chat("milk", agent="front", session=first.session)
        message = next(
            each for each in await records(runtime, first.session) if each.task_id == second.task_id
        )
        fork = await forked(runtime, second.task_id, message.seq, agent="other")
        await runtime.attach(fork.task_id).reply()
    assert ["You are the other." in each.system for each in model.requests[-2:]] == [False, True]


async def test_the_copy_of_a_run_reports_to_no_call(tmp_path: Path) -> None:
    run = run_requested(
        NewRun(command="none", waiter=(LogId("conv_a"), TaskId("task_a"))), LOCAL_PROFILE
    )
    async with penstock.open(tmp_path, model=ScriptedModel([])) as runtime:
        task_id = TaskId("task_run")
        log = runtime.parts.storage.log
        await log.send(LogId(task_id), [Entry(run, task_id)])
        fork = await forked(runtime, task_id, 1)
        event = (await of_kind(runtime, fork.log_id, FlowRequested)).event
    assert isinstance(event, FlowRequested)
    assert (event.waiter_log, event.waiter) == (None, None)


async def test_a_long_conversation_with_a_replaced_message_can_be_forked() -> None:
    place = MemoryStorage(limits=Limits(queued_tasks=2))
    async with memory_runtime(model=ScriptedModel(lambda _: say("Yes.")), place=place) as runtime:
        first = await runtime.chat("tea")
        for _ in range(3):
            await runtime.chat("more", session=first.session)
        again = await runtime.requests.send(
            NewMessage(
                content="milk",
                session_id=SessionId(first.session),
                supersedes=TaskId(first.task_id),
            )
        )
        await runtime.requests.wait(again.task_id)
        newest = (await records(runtime, first.session))[-1]
        fork = await forked(runtime, again.task_id, newest.seq - 1)
        await runtime.attach(fork.task_id).reply()
        assert [each.text for each in await runtime.history(fork.log_id)] == ["milk", "Yes."]
