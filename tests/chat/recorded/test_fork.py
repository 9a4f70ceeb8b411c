"""Forks: a copy of a task continues from an event in its middle; the task stays as it is."""

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.chat.recorded.fork import Fork, ForkRequest
from penstock.core.envelope import Status
from penstock.core.errors import InvalidRequest, NotFound, TextErased
from penstock.core.events.events import CallSettled, Record, ReplyReceived, TaskStarted
from penstock.core.events.history_events import Forked
from penstock.core.ids import LogId, TaskId
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime
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
