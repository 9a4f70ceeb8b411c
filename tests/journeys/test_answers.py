"""Answers: which are valid, which profiles can give them, and messages that arrive meanwhile."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.builtins.ask_user import TOOLS as ASK_USER
from penstock.chat.requests import NewMessage
from penstock.core.envelope import Status
from penstock.core.errors import (
    AlreadyAnswered,
    Forbidden,
    InvalidAnswer,
    NotFound,
    QuestionClosed,
    QuestionOpen,
    SessionBusy,
)
from penstock.core.events.events import CancelRequested, Entry, Record
from penstock.core.ids import LogId, ProfileId
from penstock.core.profile import CHAT, Profile
from penstock.core.task import QuestionStatus, TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from penstock.store.logs.log import OnWay
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.assistant import assert_whole
from tests.kit.logs import code, kinds, settled
from tests.kit.questions import ask_color, go_on, mail, question_of
from tests.kit.tools import Act


async def test_the_first_answer_wins() -> None:
    model = ScriptedModel([call("mail", to="ann"), say("Ok.")])
    async with memory_runtime(model=model, tools=[mail()]) as runtime:
        parked = await ask(runtime, "Mail Ann")
        question_id = question_of(parked)
        await runtime.requests.answer(question_id, {"decision": "approve"})
        again = await runtime.requests.answer(question_id, {"decision": "approve"})
        assert again.status is QuestionStatus.ANSWERED
        with pytest.raises(AlreadyAnswered) as refused:
            await runtime.requests.answer(question_id, {"decision": "reject"})
    assert refused.value.details == {"answer": {"decision": "approve"}}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision": "maybe"},
        {"decision": True},
        {"decision": "approve", "input": []},
        {"decision": "reject", "input": {"to": "bob"}},
        {"decision": "approve", "sudo": True},
        {"text": "yes"},
    ],
)
async def test_an_invalid_answer_leaves_the_question_open(body: dict[str, Any]) -> None:
    tool = mail()
    model = ScriptedModel([call("mail", to="ann"), say("Ok.")])
    async with memory_runtime(model=model, tools=[tool]) as runtime:
        parked = await ask(runtime, "Mail Ann")
        with pytest.raises(InvalidAnswer):
            await runtime.requests.answer(question_of(parked), body)
        await go_on(runtime, parked, {"decision": "approve"})
    assert len(tool.runs) == 1


async def test_an_answer_needs_its_permission_and_the_right_profile() -> None:
    ann, bob = (
        Profile(profile_id=ProfileId(name), permissions=frozenset({CHAT}))
        for name in ("ann", "bob")
    )
    model = ScriptedModel([call("mail", to="ann"), say("Ok.")])
    async with memory_runtime(model=model, tools=[mail()]) as runtime:
        parked = await ask(runtime, "Mail Ann", profile=ann)
        with pytest.raises(NotFound):
            await runtime.requests.answer(question_of(parked), {"decision": "approve"}, profile=bob)
        with pytest.raises(Forbidden, match="approve"):
            await runtime.requests.answer(question_of(parked), {"decision": "approve"}, profile=ann)
        reply = await go_on(runtime, parked, {"decision": "approve"})
    assert reply.content == "Ok."


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("2", {"value": "blue"}),
        ("red", {"value": "red"}),
        (" Blue ", {"value": "blue"}),
        ("green, please", {"text": "green, please"}),
    ],
)
async def test_a_message_is_the_answer_while_ask_user_is_open(
    message: str, answer: dict[str, Any]
) -> None:
    tool = Act("ask", ask_color)
    model = ScriptedModel([call("ask"), say("Noted.")])
    async with memory_runtime(model=model, tools=[tool]) as runtime:
        parked = await ask(runtime, "Paint it")
        reply = await ask(runtime, message, session=parked.session_id)
        (outcome,) = await settled(runtime, parked.session_id)
    assert (reply.task_id, reply.content) == (parked.task_id, "Noted.")
    assert outcome.envelope.output == answer


SELECT = {"type": "select", "options": ["Red", "Blue"]}


@pytest.mark.parametrize(
    ("form", "message", "answer"),
    [
        ({"type": "confirm"}, "Yes", True),
        ({"type": "confirm"}, "n", False),
        ({"type": "input"}, "yes", "yes"),
        (SELECT, "2", "Blue"),
        (SELECT | {"allowCustom": True}, "green", "green"),
        (SELECT | {"multiSelect": True}, "1, blue", ["Red", "Blue"]),
    ],
)
async def test_a_typed_question_is_answered_in_words_in_a_chat(
    form: dict[str, Any], message: str, answer: Any
) -> None:
    """14.2: "In chats and terminals `yes no y n` answer confirm, and numbers choose options"."""
    model = ScriptedModel([call("ask_user", question="So?", **form), say("Noted.")])
    async with memory_runtime(model=model, tools=ASK_USER) as runtime:
        parked = await ask(runtime, "Paint it")
        await ask(runtime, message, session=parked.session_id)
        (outcome,) = await settled(runtime, parked.session_id)
    assert outcome.envelope.output == {"answer": answer}


async def test_an_invalid_message_leaves_a_typed_question_open() -> None:
    model = ScriptedModel([call("ask_user", question="So?", type="confirm"), say("Noted.")])
    async with memory_runtime(model=model, tools=ASK_USER) as runtime:
        parked = await ask(runtime, "Paint it")
        with pytest.raises(InvalidAnswer, match="answer must be true or false"):
            await ask(runtime, "perhaps", session=parked.session_id)
        question = await runtime.parts.storage.projections.find_question(question_of(parked))
    assert question is not None
    assert question.status is QuestionStatus.OPEN


async def test_a_message_is_refused_while_an_approval_is_open() -> None:
    model = ScriptedModel({"Mail": call("mail", to="ann"), "New": say("Hello.")})
    async with memory_runtime(model=model, tools=[mail()]) as runtime:
        parked = await ask(runtime, "Mail Ann")
        with pytest.raises(QuestionOpen) as refused:
            await ask(runtime, "yes, do it", session=parked.session_id)
        assert refused.value.details == {"questions": [question_of(parked)]}
        new = NewMessage(content="New", session_id=parked.session_id, cancel_open=True)
        sent = await runtime.requests.send(new)
        reply = await runtime.requests.wait(sent.task_id)
        before = await runtime.requests.wait(parked.task_id)
        (outcome,) = await settled(runtime, parked.session_id)
        with pytest.raises(QuestionClosed):
            await runtime.requests.answer(question_of(parked), {"decision": "approve"})
    assert reply
    assert before
    assert (reply.content, before.status) == ("Hello.", TaskStatus.CANCELLED)
    assert code(outcome) == "CANCELLED"
    assert_whole(model.requests[-1])


class LastCancelLate(MemoryLog):
    """Writes a second cancel request after the first one took full effect."""

    cancels = 0

    async def send(
        self,
        log_id: LogId,
        entries: Sequence[Entry],
        *,
        head: int | None = None,
        on_way: OnWay | None = None,
    ) -> Sequence[Record]:
        self.cancels += isinstance(entries[0].event, CancelRequested)
        if self.cancels > 1:
            await settle()
        return await super().send(log_id, entries, head=head, on_way=on_way)


async def test_two_messages_that_cancel_the_same_task_are_both_accepted() -> None:
    """9: "with `cancelOpen: true` the waiting task is cancelled first": it may be over by then."""
    clock = FakeClock()
    place = MemoryStorage(clock=clock, log=LastCancelLate(clock))
    model = ScriptedModel({"Mail": call("mail", to="ann"), "New": say("Hello.")})
    async with memory_runtime(model=model, tools=[mail()], place=place) as runtime:
        parked = await ask(runtime, "Mail Ann")
        new = NewMessage(content="New", session_id=parked.session_id, cancel_open=True)
        sent = await asyncio.gather(*(runtime.requests.send(new) for _ in range(2)))
        replies = [await runtime.requests.wait(each.task_id) for each in sent]
    assert [each and each.content for each in replies] == ["Hello.", "Hello."]


async def test_cancel_of_a_parked_task_closes_its_question() -> None:
    model = ScriptedModel({"Mail": call("mail", to="ann"), "And": say("Nothing was sent.")})
    async with memory_runtime(model=model, tools=[mail()]) as runtime:
        parked = await ask(runtime, "Mail Ann")
        await runtime.requests.cancel(parked.task_id)
        reply = await runtime.requests.wait(parked.task_id)
        assert reply
        assert reply.status is TaskStatus.CANCELLED
        assert (await kinds(runtime, parked.session_id))[-3:] == [
            "QuestionAnswered",
            "CallSettled",
            "TaskEnded",
        ]
        await ask(runtime, "And now?", session=parked.session_id)
    assert_whole(model.requests[-1])


async def test_eight_messages_wait_and_the_ninth_is_refused() -> None:
    hold = Hold()
    model = ScriptedModel(lambda request: wait(hold) + say(f"{len(request.messages)}"))
    async with memory_runtime(model=model) as runtime:
        first = await runtime.requests.send(NewMessage(content="0"))
        await hold.reached()
        waiting = [
            await runtime.requests.send(NewMessage(content=str(n), session_id=first.session_id))
            for n in range(1, 9)
        ]
        with pytest.raises(SessionBusy):
            await runtime.requests.send(NewMessage(content="9", session_id=first.session_id))
        hold.release()
        replies = [await runtime.requests.wait(sent.task_id) for sent in waiting]
    assert [reply.content for reply in replies if reply] == [str(3 + 2 * n) for n in range(8)]


async def test_a_queued_task_can_be_cancelled_while_the_one_before_it_is_parked() -> None:
    hold, tool = Hold(), mail()
    model = ScriptedModel([wait(hold) + call("mail", to="ann"), say("Sent.")])
    async with memory_runtime(model=model, tools=[tool]) as runtime:
        first = await runtime.requests.send(NewMessage(content="Mail"))
        await hold.reached()
        second = await runtime.requests.send(NewMessage(content="Two", session_id=first.session_id))
        hold.release()
        parked = await runtime.requests.wait(first.task_id)
        await runtime.requests.cancel(second.task_id)
        cancelled = await runtime.requests.wait(second.task_id)
        assert parked
        assert cancelled
        assert cancelled.status is TaskStatus.CANCELLED
        reply = await go_on(runtime, parked, {"decision": "approve"})
    assert (reply.content, len(tool.runs)) == ("Sent.", 1)


async def test_a_direct_call_waits_for_a_person() -> None:
    tool = mail(direct_call=True)
    async with memory_runtime(tools=[tool]) as runtime:
        envelope = await runtime.call("mail", {"to": "ann"})
        assert envelope.status is Status.SUSPENDED
        assert envelope.error
        assert envelope.error.details
        (question_id,) = envelope.error.details["question_ids"]
        await runtime.requests.answer(question_id, {"decision": "approve"})
        reply = await runtime.requests.wait(envelope.error.details["task_id"])
    assert reply
    assert reply.envelope
    assert (reply.envelope.output, tool.runs) == ({"to": "ann"}, [{"to": "ann"}])
