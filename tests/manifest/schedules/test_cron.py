"""Cron lines and time zones."""

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.clock import Moment, to_iso
from penstock.manifest.schedules.cron import ALIASES, MAX_COUNTED, CronLine, check, check_zone

MINUTE = 60_000


def moment(text: str, zone: str = "UTC") -> Moment:
    """Return the moment of a local time."""
    local = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return Moment(int(local.timestamp() * 1000))


@pytest.mark.parametrize(
    ("line", "zone", "after", "due"),
    [
        ("0 9 * * *", "UTC", "2026-11-23T09:00", ["2026-11-24T09:00", "2026-11-25T09:00"]),
        ("@daily", "UTC", "2026-11-23T09:00", ["2026-11-24T00:00"]),
        ("@Weekly", "UTC", "2026-11-23T09:00", ["2026-11-29T00:00"]),
        ("0 0 * * 7", "UTC", "2026-11-23T09:00", ["2026-11-29T00:00"]),
        ("0 0 * JAN MON", "UTC", "2026-11-23T09:00", ["2027-01-04T00:00"]),
        # both days given: either fits
        ("0 0 13 * FRI", "UTC", "2026-11-10T00:00", ["2026-11-13T00:00", "2026-11-20T00:00"]),
        ("0 0 29 2 *", "UTC", "2026-11-23T09:00", ["2028-02-29T00:00"]),
        ("0 9 * * *", "Asia/Kolkata", "2026-11-23T00:00", ["2026-11-23T03:30"]),
        # clock changes in Berlin: 02:30 does not exist, comes twice, and each half hour is due
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00"]),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00",
            ["2026-10-25T00:30", "2026-10-26T01:30"],
        ),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-24T23:45",
            [
                *("2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00"),
                *("2026-10-25T01:30", "2026-10-25T02:00"),
            ],
        ),
    ],
)
def test_a_line_is_due_at_these_times(line: str, zone: str, after: str, due: list[str]) -> None:
    found = CronLine(line, zone).upcoming(moment(after), len(due))
    assert [to_iso(each)[:16] for each in found] == due


@pytest.mark.parametrize("line", [*ALIASES, "0 0 * * 5", "*/7 1-5,9 * 1-3 MON-FRI", "5 4 31 2 MON"])
def test_these_lines_are_right(line: str) -> None:
    assert not check(line)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("", "must have five fields"),
        ("* * * *", "found 4"),
        ("0 * * * * *", "found 6"),
        ("61 * * * *", "the minute must be 0 to 59"),
        ("*/0 * * * *", "the minute must be"),
        ("5-1 * * * *", "the minute must be"),
        ("? * * * *", "the minute must be"),
        ("+1 * * * *", "the minute must be"),
        ("\u0661 * * * *", "the minute must be"),
        ("0 24 * * *", "the hour must be 0 to 23"),
        ("0 0 L * *", "the day of month must be 1 to 31"),
        ("0 0 1,,2 * *", "the day of month must be"),
        ("0 0 * FOO *", "the month must be 1 to 12 or JAN to DEC"),
        ("0 0 * MARCH *", "the month must be"),
        ("0 0 * * 8", "the day of week must be 0 to 7 or SUN to SAT"),
        ("0 0 * * 1#2", "the day of week must be"),
        ("0 0 * * 5L", "the day of week must be"),
        ("0 0 31 2 *", "the day of month '31' never comes in the month '2'"),
        ("0 0 30-31 2 *", "never comes in the month '2'"),
        ("0 0 31 4,6 *", "never comes in the month '4,6'"),
        ("@reboot", "is not known; use one of @hourly"),
        ("@dayly", "did you mean @daily?"),
        ("1 " * 300, "must have five fields"),
    ],
)
def test_these_lines_are_wrong_and_the_field_is_named(line: str, part: str) -> None:
    assert part in check(line)


@pytest.mark.parametrize(
    ("zone", "part"),
    [
        ("UTC", ""),
        ("Europe/Berlin", ""),
        ("Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("new york", "did you mean 'America/New_York'?"),
        ("Mars/Olympus", "must be an IANA time zone"),
        ("../../etc/passwd", "must be an IANA time zone"),
        ("", "found an empty text"),
    ],
)
def test_a_zone_is_right_or_the_nearest_is_named(zone: str, part: str) -> None:
    found = check_zone(zone)
    assert part in found
    assert bool(found) == bool(part)


def test_a_time_that_comes_twice_is_not_due_again_for_a_look_between_both() -> None:
    line, berlin = CronLine("30 2 * * *", "Europe/Berlin"), moment("2026-10-25T01:13")
    assert line.newest_until(berlin) == moment("2026-10-25T00:30")
    assert line.next_after(berlin) == moment("2026-10-26T01:30")
    each = CronLine("*/30 * * * *", "Europe/Berlin")
    assert each.newest_until(berlin) == moment("2026-10-25T01:00")
    assert each.next_after(berlin) == moment("2026-10-25T01:30")
    daily = CronLine("0 9 * * *", "Europe/Berlin")
    assert daily.newest_until(berlin) == moment("2026-10-24T07:00")


def test_the_newest_due_time_counts_the_present_minute() -> None:
    line = CronLine("*/10 * * * *", "UTC")
    noon = moment("2026-11-23T12:00")
    for after, newest in [(0, 0), (1, 0), (MINUTE, 0), (10 * MINUTE, 10), (-1, -10)]:
        assert line.newest_until(Moment(noon + after)) == noon + newest * MINUTE


def test_due_times_are_counted_up_to_a_day_of_minutes() -> None:
    line = CronLine("* * * * *", "UTC")
    start = moment("2026-11-23T12:00")
    for minutes, count in [(0, 0), (1, 1), (90, 90), (1500, MAX_COUNTED), (50_000, MAX_COUNTED)]:
        assert line.count(start, Moment(start + minutes * MINUTE)) == count


LINES = ["* * * * *", "30 2 * * *", "0 */3 * * *", "15 1-3 * * SUN", "0 0 1,15 * *"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(LINES), st.sampled_from(ZONES), st.integers(0, 2 * 366 * 24 * 60))
def test_due_times_rise_and_looking_back_finds_each(line: str, zone: str, minutes: int) -> None:
    cron, start = CronLine(line, zone), moment("2026-01-01T00:00")
    due = cron.upcoming(Moment(start + minutes * MINUTE), 4)
    assert all(one < other for one, other in pairwise(due))
    assert cron.next_after(due[0]) == due[1]
    for each, following in pairwise(due):
        assert cron.newest_until(Moment(following - 1)) == each
