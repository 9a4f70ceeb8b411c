"""What a script asks of a person, and what it may know of whom it works for."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.errors import Suspend
from penstock.core.events.events import QuestionAnswered
from penstock.core.ids import ProfileId
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.core.task import EXPIRED, QuestionStatus
from tests.kit.hosts import Asking, asking

WAIT = "task.waitForUserMessage"
BAD: list[dict[str, Any]] = [
    {"user_message": ""},
    {"user_message": " \n"},
    {"user_message": 1},
    {"timeout": None},
    {"timeout": "10"},
    {"timeout": {"seconds": 0, "resume_prompt": "x"}},
    {"timeout": {"seconds": 31_536_001, "resume_prompt": "x"}},
    {"timeout": {"seconds": "1", "resume_prompt": "x"}},
    {"timeout": {"seconds": 1}},
    {"timeout": {"seconds": 1, "resume_prompt": ""}},
    {"resume_schema": {"type": "nothing"}},
    {"resume_schema": "x"},
    {"resume_schema": {"type": "string"}, "resume_payload": 1},
]
PROMPT = {"seconds": 60, "resume_prompt": "Go on without."}


async def parked(host: Asking, **more: Any) -> dict[str, Any]:
    """Ask, and let it wait; returns what was asked."""
    asked = {"user_message": "Which month?"} | more
    with pytest.raises(Suspend):
        await host.ask(WAIT, asked)
    return asked


@pytest.mark.parametrize("wrong", BAD)
async def test_a_wait_of_no_form_is_a_mistake_and_asks_nobody(wrong: dict[str, Any]) -> None:
    host = await asking()
    assert await host.refusal(WAIT, {"user_message": "?"} | wrong) == "TypeError"
    assert host.bench.questions == []


@pytest.mark.parametrize(
    ("answer", "payload"), [({}, {"n": 1}), ({"resume_payload": {"n": 2}}, {"n": 2})]
)
async def test_the_payload_comes_back_as_it_was_given_or_as_it_was_replaced(
    answer: dict[str, Any], payload: Any
) -> None:
    host = await asking()
    asked = await parked(host, resume_payload={"n": 1})
    await host.bench.answer({"text": "May"} | answer)
    host.begin()
    said = {"resume_reason": "user_message", "user_message": "May", "resume_payload": payload}
    assert await host.value(WAIT, **asked) == said
    context = await host.value("task.getContext")
    assert context["resume_payload"] == {
        "kind": "user_message",
        "user_message": "May",
        **payload,
    }
    host.begin()
    assert await host.value(WAIT, **asked) == said


async def test_the_end_of_the_time_is_no_message() -> None:
    """`resume_payload`: `{kind: "timeout", …payload}` of the latest answer to this call."""
    host = await asking()
    asked = await parked(host, timeout=PROMPT, resume_payload={"n": 1})
    (question,) = host.bench.questions
    assert question.expires_at == host.bench.world.clock.now() + 60_000
    over = QuestionAnswered(
        question_id=question.question_id,
        status=QuestionStatus.CANCELLED,
        answer={**EXPIRED, **question.handed_back},
    )
    host.bench.ledger.add(over)
    host.begin()
    assert await host.value(WAIT, **asked) == {
        "resume_reason": "timeout",
        "resume_prompt": "Go on without.",
        "resume_payload": {"n": 1},
    }
    context = await host.value("task.getContext")
    assert context["resume_payload"] == {"kind": "timeout", "n": 1}


async def test_the_answer_of_a_person_counts_in_a_further_attempt() -> None:
    """L9: "answers of people are reused"."""
    host = await asking()
    asked = await parked(host)
    await host.bench.answer({"text": "May"})
    host.begin()
    first = await host.value(WAIT, **asked)
    host.begin(attempt=2)
    assert await host.value(WAIT, **asked) == first
    assert host.bench.questions == []


async def test_a_question_holds_no_secret() -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    await parked(host, user_message="Is s3cr3t-value yours?", resume_payload="s3cr3t-value")
    assert host.bench.questions[0].text == "Is [secret:token] yours?"
    await host.bench.answer({"text": "it is s3cr3t-value"})
    host.begin()
    await host.value("vault.get", scope="profile", key="token")
    asked = {"user_message": "Is s3cr3t-value yours?", "resume_payload": "s3cr3t-value"}
    assert (await host.value(WAIT, **asked))["user_message"] == "it is [secret:token]"


async def test_where_a_script_runs_is_fresh_in_each_entry() -> None:
    host = await asking()
    context = await host.value("task.getContext")
    task_id = host.bench.ledger.task.task_id
    assert (context["task_id"], context["session_id"]) == (task_id, task_id)
    assert context["selected_skill_ids"] == []
    assert "resume_payload" not in context
    called = context["call"]
    assert (called["tool_id"], called["depth"], called["entry"], called["attempt"]) == (
        "script",
        1,
        1,
        1,
    )
    host.begin(attempt=2)
    again = (await host.value("task.getContext"))["call"]
    assert again == called | {"attempt": 2}


@pytest.mark.parametrize("kind", ["user", "builtin"])
async def test_who_asks(kind: str) -> None:
    host = await asking()
    profile = Profile(profile_id=ProfileId("ann"), permissions=frozenset({"b", "a"}), kind=kind)
    host.bench.model = replace(host.bench.model, profile=profile)
    host.begin()
    found = await host.value("task.getProfile")
    assert found == {"profile_id": "ann", "profile_kind": kind, "permissions": ["a", "b"]}


async def test_who_holds_everything_has_every_permission_that_is_named() -> None:
    """Spec: of `local`, "all named in the bundle"."""
    host = await asking()
    host.bench.model = replace(host.bench.model, profile=LOCAL_PROFILE)
    host.begin()
    found = await host.value("task.getProfile")
    assert found["permissions"] == ["admin", "approve", "chat", "manage", "read"]


async def test_a_call_that_no_model_named_is_known_by_its_place() -> None:
    host = await asking()
    call = (await host.value("task.getContext"))["call"]
    assert call["call_id"] == host.invocation.call.path


async def test_where_nobody_may_be_asked_a_wait_is_refused_even_with_a_timeout() -> None:
    host = await asking()
    host.bench.model = replace(host.bench.model, is_autonomous=True)
    host.begin()
    for more in ({}, {"timeout": PROMPT}):
        assert await host.refusal(WAIT, {"user_message": "?"} | more) == "NOT_PERMITTED"
    assert host.bench.questions == []
