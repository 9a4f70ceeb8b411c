"""Answers to open questions: by the id of a question, or by the next message."""

from typing import Any

import pytest

from penstock import Image
from penstock.builtins import TOOLS
from penstock.chat.requests import NewMessage
from penstock.core.errors import (
    AlreadyAnswered,
    Forbidden,
    InvalidAnswer,
    InvalidRequest,
    NotFound,
    QuestionOpen,
)
from penstock.core.ids import LogId, ProfileId, QuestionId
from penstock.core.profile import APPROVE, CHAT, Profile
from penstock.core.task import QuestionStatus, TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime
from tests.kit import sample_files
from tests.kit.asking import ask
from tests.kit.questions import mail, question_of

ANN = Profile(profile_id=ProfileId("ann"), permissions=frozenset({CHAT}))
BOSS = Profile(profile_id=ProfileId("ann"), permissions=frozenset({CHAT, APPROVE}))
BOB = Profile(profile_id=ProfileId("bob"), permissions=frozenset({CHAT, APPROVE}))


def mailing() -> dict[str, Any]:
    """Return a model that sends a mail, which needs an approval, and the tool."""
    return {"model": ScriptedModel({"": [call("mail", to="ann"), say("Sent.")]}), "tools": [mail()]}


def asking() -> dict[str, Any]:
    """Return a model that asks for a color, and the tool."""
    model = ScriptedModel({"": [call("ask_user", question="Which?"), say("Good.")]})
    return {"model": model, "tools": TOOLS}


async def test_the_first_answer_ends_the_wait_and_the_same_one_again_has_no_effect() -> None:
    async with memory_runtime(**mailing()) as runtime:
        parked = await ask(runtime, "Mail")
        question, answers = question_of(parked), runtime.requests.inbox.answers
        first = await answers.answer(question, {"decision": "approve"})
        again = await answers.answer(question, {"decision": "approve"})
        assert (first.status, again) == (QuestionStatus.ANSWERED, first)
        with pytest.raises(AlreadyAnswered):
            await answers.answer(question, {"decision": "reject"})
        reply = await runtime.requests.wait(parked.task_id)
    assert reply
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "Sent.")


@pytest.mark.parametrize(
    ("profile", "error"), [(BOB, NotFound), (ANN, Forbidden)], ids=["another one", "no permission"]
)
async def test_a_profile_answers_what_it_owns_and_may_decide(
    profile: Profile, error: type[Exception]
) -> None:
    async with memory_runtime(**mailing()) as runtime:
        parked = await ask(runtime, "Mail", profile=BOSS)
        answers = runtime.requests.inbox.answers
        with pytest.raises(error):
            await answers.answer(question_of(parked), {"decision": "approve"}, profile)
        with pytest.raises(NotFound, match="there is no question 'q_none'"):
            await answers.answer(QuestionId("q_none"), {}, profile)
        record = await runtime.parts.storage.projections.find_question(question_of(parked))
    assert record
    assert record.status is QuestionStatus.OPEN


async def test_an_answer_that_does_not_fit_leaves_the_question_open() -> None:
    async with memory_runtime(**mailing()) as runtime:
        parked = await ask(runtime, "Mail")
        answers = runtime.requests.inbox.answers
        with pytest.raises(InvalidAnswer):
            await answers.answer(question_of(parked), {"decision": "perhaps"})
        waits = await answers.open_waits(LogId(str(parked.session_id)))
    assert (waits.tasks, waits.question_ids) == ([parked.task_id], [question_of(parked)])


async def test_the_next_message_answers_a_question_in_words() -> None:
    async with memory_runtime(**asking()) as runtime:
        parked = await ask(runtime, "Choose")
        sent = await runtime.requests.send(NewMessage(content="Red", session_id=parked.session_id))
        reply = await runtime.requests.wait(sent.task_id)
        waits = await runtime.requests.inbox.answers.open_waits(LogId(str(parked.session_id)))
    assert sent.task_id == parked.task_id
    assert reply
    assert (reply.content, waits.tasks) == ("Good.", [])


async def test_a_message_cannot_decide_an_approval() -> None:
    async with memory_runtime(**mailing()) as runtime:
        parked = await ask(runtime, "Mail")
        with pytest.raises(QuestionOpen, match=f"answer {question_of(parked)} first"):
            await ask(runtime, "approve", session=parked.session_id)


async def test_an_answer_has_no_files() -> None:
    async with memory_runtime(**asking()) as runtime:
        parked = await ask(runtime, "Choose")
        with pytest.raises(InvalidRequest, match="an answer has no files"):
            await ask(runtime, ["Red", Image(sample_files.image())], session=parked.session_id)


async def test_a_command_for_information_need_not_wait() -> None:
    async with memory_runtime(**mailing()) as runtime:
        parked = await ask(runtime, "Mail")
        shown = await ask(runtime, "/call", session=parked.session_id)
    assert shown.task_id != parked.task_id
    assert shown.status is TaskStatus.SUCCEEDED
