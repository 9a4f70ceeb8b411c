"""What new schedules must be like, and which due time fires next."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from penstock.chat.schedules.definition import (
    CONTEXT_BYTES,
    NewSchedule,
    Tick,
    check,
    check_message,
    first_due,
    plan,
)
from penstock.core.clock import Moment
from penstock.core.errors import InvalidRequest
from penstock.testing.clock import START
from tests.kit.schedules import MINUTE, stored

HOUR = 60 * MINUTE
NINE = START
"""2026-11-21T09:00:00Z."""
AT = datetime.fromtimestamp(START / 1000, UTC)
WEST = timezone(timedelta(hours=-12))
"""The end of the year 9999 there is in the year 10000 in UTC."""


def new(**more: Any) -> NewSchedule:
    kind = {} if {"cron", "at", "delay_seconds"} & more.keys() else {"cron": "@daily"}
    return NewSchedule(**{"name": "News", "input": {"content": "Hi"}} | kind | more)


@pytest.mark.parametrize(
    ("more", "due"),
    [
        ({"cron": "0 9 * * *"}, 24 * HOUR),
        ({"cron": "0 11 * * *", "timezone": "Europe/Berlin"}, HOUR),
        ({"at": AT + timedelta(seconds=1)}, 1000),
        ({"delay_seconds": 90}, 90_000),
    ],
)
def test_the_first_due_time_is_after_now(more: dict[str, Any], due: int) -> None:
    schedule = new(**more)
    check(schedule, NINE, lambda _: [])
    assert first_due(schedule, schedule.timezone or "UTC", NINE) == NINE + due


@pytest.mark.parametrize(
    ("more", "field", "part"),
    [
        ({"name": " "}, "/name", "1 to 200 characters"),
        ({"name": "x" * 201}, "/name", "1 to 200 characters"),
        ({"cron": "0 0 31 2 *"}, "/cron_expression", "never comes"),
        ({"cron": "@daily", "delay_seconds": 5}, "/cron_expression", "found cron_expression, dela"),
        ({"cron": None}, "/cron_expression", "found none"),
        ({"timezone": "Mars/Base"}, "/timezone", "IANA"),
        ({"at": AT}, "/next_run", "in the future"),
        ({"at": datetime(2030, 1, 1)}, "/next_run", "time zone"),  # noqa: DTZ001
        ({"at": datetime.max.replace(tzinfo=WEST)}, "/next_run", "before the year 9999"),
        ({"delay_seconds": 0}, "/delay_seconds", "1 to 31536000"),
        ({"delay_seconds": 31_536_001}, "/delay_seconds", "1 to 31536000"),
        ({"concurrency": "maybe"}, "/concurrency", "forbid or allow"),
        ({"suspension_seconds": 0, "resume_prompt": "x"}, "/suspension_timeout/seconds", "1 to"),
        ({"suspension_seconds": 5}, "/suspension_timeout/resume_prompt", "blank"),
        (
            {"suspension_seconds": 5, "resume_prompt": "x", "callback_type": "function"},
            "/suspension_timeout",
            "is for messages",
        ),
    ],
)
def test_each_mistake_is_named_with_its_field(more: dict[str, Any], field: str, part: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(new(**more), NINE, lambda _: [])
    assert [(each["field"], part in each["issue"]) for each in caught.value.problems] == [
        (field, True)
    ]


def test_all_mistakes_are_named_together() -> None:
    wrong = new(name="", cron="x", timezone="Mars", concurrency="maybe")
    with pytest.raises(InvalidRequest) as caught:
        check(wrong, NINE, lambda _: [{"field": "/callback_id", "issue": "is missing"}])
    fields = [each["field"] for each in caught.value.problems]
    assert fields == ["/name", "/cron_expression", "/timezone", "/concurrency", "/callback_id"]


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"content": "Hi"}, []),
        ({"content": "Hi", "conversation": "same", "context": {}, "selectedSkillIds": ["a"]}, []),
        ({}, ["/input/content"]),
        ({"content": " "}, ["/input/content"]),
        ({"content": "x" * 11}, ["/input/content"]),
        ({"content": "Hi", "text": 1}, ["/input/text"]),
        ({"content": "Hi", "conversation": ""}, ["/input/conversation"]),
        ({"content": "Hi", "conversation": "a\x00"}, ["/input/conversation"]),
        ({"content": "Hi", "selectedSkillIds": [1]}, ["/input/selectedSkillIds"]),
        ({"content": "Hi", "context": {"a": "x" * CONTEXT_BYTES}}, ["/input/context"]),
    ],
)
def test_the_input_of_a_message_has_a_content(given: dict[str, Any], fields: list[str]) -> None:
    assert [each["field"] for each in check_message(given, 10)] == fields


@pytest.mark.parametrize(
    ("cron", "late", "expected"),
    [
        # due now, late by a moment, late by several due times
        ("0 * * * *", 0, (0, HOUR, 0)),
        ("0 * * * *", 5, (0, HOUR, 0)),
        ("* * * * *", 10 * MINUTE, (10 * MINUTE, 11 * MINUTE, 10)),
        # the newest due time is more than an hour old
        ("0 9 * * *", HOUR + 1, (None, 24 * HOUR, 1)),
        ("0 9 * * *", 3 * 24 * HOUR, (3 * 24 * HOUR, 4 * 24 * HOUR, 3)),
        ("0 9 * * *", 3 * 24 * HOUR + 2 * HOUR, (None, 4 * 24 * HOUR, 4)),
        # a month of minutes: one task, and as many missed as are counted
        ("* * * * *", 30 * 24 * HOUR, (30 * 24 * HOUR, 30 * 24 * HOUR + MINUTE, 1500)),
        # due once
        (None, 0, (0, None, 0)),
        (None, HOUR, (0, None, 0)),
        (None, HOUR + 1, (None, None, 1)),
    ],
)
def test_the_newest_due_time_fires_and_older_ones_are_missed(
    cron: str | None, late: int, expected: tuple[int | None, int | None, int]
) -> None:
    tick = plan(stored(cron=cron, next_run=NINE), Moment(NINE + late), 3600)
    due, following, missed = expected
    assert tick == Tick(
        due_at=None if due is None else Moment(NINE + due),
        next_run=None if following is None else Moment(NINE + following),
        missed=missed,
    )


def test_the_next_due_times_of_an_active_schedule_are_shown() -> None:
    minutely = stored(cron="* * * * *", next_run=NINE)
    assert minutely.upcoming(3) == [NINE, NINE + MINUTE, NINE + 2 * MINUTE]
    assert minutely.upcoming(0) == []
    assert stored(cron=None, next_run=NINE).upcoming(3) == [NINE]
    assert stored(cron="* * * * *", next_run=NINE, status="paused").upcoming() == []
