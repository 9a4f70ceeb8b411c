"""The calls of `flo.task`: its values, notes, questions, context and profile."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.errors import Suspend
from penstock.core.events.events import NoteEmitted, QuestionAnswered
from penstock.core.ids import ProfileId
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.core.task import EXPIRED, QuestionStatus
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.tools.python.capabilities import MAX_EVENTS
from penstock.tools.scripts.bindings import Bindings
from tests.kit.hosts import Asking, asking
from tests.kit.tools import Act

BAD_KEYS: list[Any] = [None, "", 1, True, [], {}, "x" * 513, "\N{SNOWMAN}" * 171]
BAD_WRITES: list[dict[str, Any]] = [
    {"ttl_seconds": 0},
    {"ttl_seconds": -1},
    {"ttl_seconds": 31_536_001},
    {"ttl_seconds": "1"},
    {"if_revision": 1},
    {"if_revision": []},
    {"if_revision": True},
]
BAD_NOTES: list[dict[str, Any]] = [
    {},
    {"event_type": ""},
    {"event_type": 1},
    {"event_type": "a b"},
    {"event_type": "a\n"},
    {"event_type": "x" * 129},
    {"event_type": "a", "title": "x" * 201},
    {"event_type": "a", "title": 1},
    {"event_type": "a", "message": "x" * 4001},
    {"event_type": "a", "level": "loud"},
    {"event_type": "a", "level": []},
    {"event_type": "a", "payload": "x" * 33_000},
]
READS = ["task.getState", "task.getToolState"]
WRITES = ["task.putState", "task.putToolState"]


@pytest.mark.parametrize("key", BAD_KEYS)
@pytest.mark.parametrize("name", [*READS, *WRITES])
async def test_a_malformed_key_is_refused(name: str, key: Any) -> None:
    host = await asking()
    assert await host.refusal(name, {"key": key, "value": 1}) == "TypeError"


@pytest.mark.parametrize("wrong", BAD_WRITES)
@pytest.mark.parametrize("name", WRITES)
async def test_a_malformed_write_is_refused(name: str, wrong: dict[str, Any]) -> None:
    host = await asking()
    assert await host.refusal(name, {"key": "k", "value": 1} | wrong) == "TypeError"


async def test_values_of_the_task_and_of_a_tool_are_separate() -> None:
    host = await asking()
    await host.value("task.putState", key="k", value="all")
    await host.value("task.putToolState", key="k", value="own")
    assert await host.value("task.getState", key="k") == "all"
    assert await host.value("task.getToolState", key="k") == "own"
    assert await host.value("task.getToolState", key="k", tool_id="script") == "own"
    assert await host.value("task.getToolState", key="k", tool_id="other") is None


async def test_a_write_returns_the_entry_or_the_conflicting_revision() -> None:
    host = await asking()
    first = await host.value("task.putState", key="k", value=1, if_revision=None)
    assert first == {"ok": True, "entry": {"key": "k", "value": 1, "revision": "1"}}
    other = await host.value("task.putState", key="k", value=2, if_revision="9")
    assert other == {"ok": False, "conflict_revision": "1"}
    gone = await host.value("task.putState", key="new", value=2, if_revision="9")
    assert gone == {"ok": False}


async def test_an_expired_value_is_absent() -> None:
    host = await asking()
    clock = host.bench.world.clock
    assert isinstance(clock, FakeClock)
    made = await host.value("task.putState", key="k", value=1, ttl_seconds=10)
    assert made["entry"]["expires_at"] == "2026-11-21T09:00:10.000Z"
    clock.advance(10)
    assert await host.value("task.getState", key="k") is None


async def test_writes_happen_once_and_reads_repeat_their_result() -> None:
    host = await asking()
    before = await host.value("task.getState", key="k")
    await host.value("task.putState", key="k", value=1)
    host.begin()
    assert await host.value("task.getState", key="k") is before
    again = await host.value("task.putState", key="k", value=1)
    assert again["entry"]["revision"] == "1"


async def test_a_secret_is_refused_as_a_value_of_the_task() -> None:
    """V6: "`task.put*` refuse a value that contains a given-out secret"."""
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    for name in WRITES:
        result = await host.refusal(name, {"key": "k", "value": {"a": ["s3cr3t-value"]}})
        assert result == "STATE_DENIED"


@pytest.mark.parametrize("wrong", BAD_NOTES)
async def test_a_malformed_event_is_refused(wrong: dict[str, Any]) -> None:
    host = await asking()
    assert await host.refusal("task.emitEvent", wrong) == "TypeError"


async def test_an_event_is_written_once_without_secrets() -> None:
    host = await asking()
    for _ in range(2):
        await host.value("vault.get", scope="profile", key="token")
        await host.value(
            "task.emitEvent", event_type="a.b", title="", payload={"t": "s3cr3t-value"}
        )
        host.begin()
    reported = [each for each in await host.bench.events() if isinstance(each, NoteEmitted)]
    assert reported == [NoteEmitted(event_type="a.b", title="", payload={"t": "[secret:token]"})]


async def test_events_over_the_limit_are_dropped_after_one_warning() -> None:
    bench = await open_workbench(tool := Act("script"))
    host = Asking(bench, tool, Bindings())
    for number in range(MAX_EVENTS + 3):
        await host.value("task.emitEvent", event_type="a", payload=number)
    reported = [each for each in await bench.events() if isinstance(each, NoteEmitted)]
    assert [each.event_type for each in reported] == ["a"] * MAX_EVENTS + ["script.events"]
    assert reported[-1].message == f"more than {MAX_EVENTS} events; the others are dropped"
    host.begin()
    for number in range(7):
        await host.value("task.emitEvent", event_type="b", payload=number)
    assert len(await bench.events()) > len(reported)
    assert [each for each in await bench.events() if isinstance(each, NoteEmitted)] == reported


async def test_a_payload_is_measured_in_bytes() -> None:
    """`events`: payload 32 KiB; past it `TypeError`."""
    host = await asking()
    note = {"event_type": "a", "payload": "\N{SNOWMAN}" * 10_000}
    assert (await host.ask("task.emitEvent", note)).refusal is None
    more = {"event_type": "a", "payload": "\N{SNOWMAN}" * 11_000}
    assert await host.refusal("task.emitEvent", more) == "TypeError"


@pytest.mark.parametrize(
    ("key", "value"), [("region", "north"), (" region ", "north"), ("other", None)]
)
async def test_a_runtime_config_returns_the_text_of_its_key(key: str, value: Any) -> None:
    host = await asking()
    assert await host.value("getRuntimeConfig", key=key) == value


@pytest.mark.parametrize("key", [None, "", "  ", 1, []])
async def test_a_blank_runtime_config_key_is_refused(key: Any) -> None:
    host = await asking()
    assert await host.refusal("getRuntimeConfig", {"key": key}) == "TypeError"


@pytest.mark.parametrize("name", WRITES)
async def test_a_key_with_a_secret_is_refused(name: str) -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    assert await host.refusal(name, {"key": "a.s3cr3t-value", "value": 1}) == "STATE_DENIED"
    assert "s3cr3t-value" not in repr(await host.bench.events())


@pytest.mark.parametrize(("get", "put"), list(zip(READS, WRITES, strict=True)))
async def test_null_is_a_value(get: str, put: str) -> None:
    """T4: `null` = must not exist; a string = must equal the current one."""
    host = await asking()
    first = await host.value(put, key="k", value=None)
    assert (first["ok"], first["entry"]["value"]) == (True, None)
    revision = first["entry"]["revision"]
    again = await host.value(put, key="k", value=1, if_revision=None)
    assert again == {"ok": False, "conflict_revision": revision}
    assert await host.value(get, key="k") is None
    assert (await host.value(put, key="k", value=2, if_revision=revision))["ok"]


@pytest.mark.parametrize("name", WRITES)
async def test_values_and_keys_of_a_task_have_the_limits_of_state(name: str) -> None:
    """`state_value_bytes` / key: 256 KiB / 512 B; `TypeError`."""
    host = await asking()
    assert (await host.value(name, key="k" * 512, value="x" * 262_142))["ok"]
    assert await host.refusal(name, {"key": "k", "value": "x" * 262_143}) == "TypeError"


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
async def test_a_malformed_wait_is_refused_without_a_question(wrong: dict[str, Any]) -> None:
    host = await asking()
    assert await host.refusal(WAIT, {"user_message": "?"} | wrong) == "TypeError"
    assert host.bench.questions == []


@pytest.mark.parametrize(
    ("answer", "payload"), [({}, {"n": 1}), ({"resume_payload": {"n": 2}}, {"n": 2})]
)
async def test_the_payload_of_a_wait_is_returned_or_replaced(
    answer: dict[str, Any], payload: Any
) -> None:
    host = await asking()
    asked = await parked(host, resume_payload={"n": 1})
    await host.bench.answer({"text": "May"} | answer)
    host.begin()
    message = {"resume_reason": "user_message", "user_message": "May", "resume_payload": payload}
    assert await host.value(WAIT, **asked) == message
    context = await host.value("task.getContext")
    assert context["resume_payload"] == {
        "kind": "user_message",
        "user_message": "May",
        **payload,
    }
    host.begin()
    assert await host.value(WAIT, **asked) == message


async def test_a_timeout_of_a_wait_returns_its_prompt() -> None:
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


async def test_an_answer_is_reused_in_a_further_attempt() -> None:
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


async def test_the_context_is_fresh_in_each_entry() -> None:
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
async def test_the_profile_is_returned_with_its_permissions(kind: str) -> None:
    host = await asking()
    profile = Profile(profile_id=ProfileId("ann"), permissions=frozenset({"b", "a"}), kind=kind)
    host.bench.model = replace(host.bench.model, profile=profile)
    host.begin()
    result = await host.value("task.getProfile")
    assert result == {"profile_id": "ann", "profile_kind": kind, "permissions": ["a", "b"]}


async def test_a_profile_with_all_permissions_lists_the_named_ones() -> None:
    """Spec: of `local`, "all named in the bundle"."""
    host = await asking()
    host.bench.model = replace(host.bench.model, profile=LOCAL_PROFILE)
    host.begin()
    result = await host.value("task.getProfile")
    assert result["permissions"] == ["admin", "approve", "chat", "manage", "read"]


async def test_a_call_without_an_id_is_identified_by_its_path() -> None:
    host = await asking()
    call = (await host.value("task.getContext"))["call"]
    assert call["call_id"] == host.invocation.call.path


async def test_a_wait_is_refused_if_no_person_may_be_asked() -> None:
    host = await asking()
    host.bench.model = replace(host.bench.model, is_autonomous=True)
    host.begin()
    for more in ({}, {"timeout": PROMPT}):
        assert await host.refusal(WAIT, {"user_message": "?"} | more) == "NOT_PERMITTED"
    assert host.bench.questions == []
