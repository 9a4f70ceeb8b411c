"""The calls of `flo.dispatcher` refuse what they cannot take, and are recorded once."""

from typing import Any

import pytest

from tests.kit.hosts import asking

AT = {"dispatcher_id": "mail", "subject_key": "a", "revision": 1}
ERROR = {"code": "BUSY", "message": "no"}
BIG = "x" * 32_767
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("syncSubjects", {"subjects": [{"subject_key": "a"}]}, "dispatcher_id must be a text"),
    ("syncSubjects", {"dispatcher_id": "d" * 129, "subjects": []}, "1 to 128"),
    ("syncSubjects", {"dispatcher_id": "d", "subjects": []}, "must be 1 to 1000 subjects, found 0"),
    ("syncSubjects", {"dispatcher_id": "d", "subjects": [1]}, "subjects[0] must be an object"),
    ("syncSubjects", {"dispatcher_id": "d", "subjects": [{}]}, "subjects[0]: subject_key"),
    (
        "syncSubjects",
        {"dispatcher_id": "d", "subjects": 2 * [{"subject_key": "a"}]},
        "a subject_key of its own",
    ),
    (
        "syncSubjects",
        {"dispatcher_id": "d", "subjects": [{"subject_key": "a", "meta": BIG}]},
        "subjects[0]: meta must have at most 32768 bytes",
    ),
    (
        "syncSubjects",
        {"dispatcher_id": "d", "subjects": [{"subject_key": "a", "next_due_at": "2026-11-21"}]},
        "subjects[0]: next_due_at must be a time with a zone",
    ),
    ("claimDueSubjects", {"dispatcher_id": "d"}, "lease_ms"),
    ("claimDueSubjects", {"dispatcher_id": "d", "lease_ms": 999}, "from 1000 to"),
    ("claimDueSubjects", {"dispatcher_id": "d", "lease_ms": 1000.5}, "lease_ms must be an integer"),
    ("claimDueSubjects", {"dispatcher_id": "d", "lease_ms": 1000, "limit": 101}, "1 to 100"),
    ("checkpointSubject", {**AT, "revision": "1"}, "revision must be a number"),
    ("checkpointSubject", {**AT, "lease_ms": 0}, "lease_ms must be a number from 1000"),
    ("checkpointSubject", {**AT, "cursor": BIG}, "cursor must have at most 32768 bytes"),
    ("completeSubject", {**AT, "next_due_at": "tomorrow"}, "found 'tomorrow'"),
    ("failSubject", AT, "code must be a text"),
    ("failSubject", {**AT, "error": {"code": "X"}}, "message must be a text"),
    ("failSubject", {**AT, "error": {**ERROR, "retryable": 1}}, "error.retryable must be true"),
    ("failSubject", {**AT, "error": {**ERROR, "details": BIG}}, "error.details must have at most"),
    (
        "failSubject",
        {**AT, "error": ERROR, "next_due_at": "2026-11-21T09:00:00Z", "retry_after_ms": 1},
        "cannot be combined",
    ),
    ("releaseSubject", {"dispatcher_id": "mail", "revision": 1}, "subject_key must be a text"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), WRONG)
async def test_a_wrong_argument_is_a_type_error(
    name: str, arguments: dict[str, Any], message: str
) -> None:
    host = await asking()
    refused = (await host.ask(f"dispatcher.{name}", arguments)).refusal
    assert refused is not None
    assert refused.name == "TypeError"
    assert message in refused.detail.message


async def test_an_entry_of_a_script_claims_what_the_first_one_claimed() -> None:
    host = await asking()
    subjects = [{"subject_key": key} for key in ("a", "b")]
    await host.value("dispatcher.syncSubjects", dispatcher_id="mail", subjects=subjects)
    claim = {"dispatcher_id": "mail", "lease_ms": 1000, "limit": 1}
    first = await host.value("dispatcher.claimDueSubjects", **claim)
    host.begin()
    await host.value("dispatcher.syncSubjects", dispatcher_id="mail", subjects=subjects)
    again = await host.value("dispatcher.claimDueSubjects", **claim)
    other = await host.value("dispatcher.claimDueSubjects", **claim)
    assert [each["subject_key"] for each in first["subjects"]] == ["a"]
    assert again == first
    assert [each["subject_key"] for each in other["subjects"]] == ["b"]


async def test_a_refusal_has_its_reason_in_each_entry() -> None:
    host = await asking()
    for _ in range(2):
        refused = (await host.ask("dispatcher.completeSubject", AT)).refusal
        assert refused is not None
        assert refused.detail.details == {"reason": "no_such_subject"}
        host.begin()


@pytest.mark.parametrize(
    "subject",
    [
        {"subject_key": "s3cr3t-value"},
        {"subject_key": "a", "cursor": {"token": "s3cr3t-value"}},
        {"subject_key": "a", "meta": "s3cr3t-value"},
    ],
)
async def test_a_secret_is_refused_in_a_subject(subject: dict[str, Any]) -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    sync = {"dispatcher_id": "mail", "subjects": [subject]}
    assert await host.refusal("dispatcher.syncSubjects", sync) == "STATE_DENIED"
