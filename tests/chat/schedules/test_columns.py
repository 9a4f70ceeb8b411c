"""Schedules as columns of their row, and back."""

from typing import Any

import pytest

from penstock.chat.schedules.columns import changed, completed, owned_by, revived, timing
from penstock.chat.schedules.definition import NewSchedule
from penstock.core.clock import Moment
from penstock.core.errors import InvalidRequest
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.testing.clock import START
from tests.kit.schedules import MINUTE, stored

NEWS = NewSchedule(name="News", cron="0 8 * * *", input={"content": "Hi"})


def test_a_message_goes_to_the_agent_of_the_schedule_unless_another_is_named() -> None:
    assert completed(NEWS).callback_id == "assistant"
    flow = NewSchedule(name="Trip", cron="@daily", callback_type="workflow", callback_id="/trip")
    assert completed(flow).callback_id == "trip"


@pytest.mark.parametrize(
    ("changes", "times"),
    [
        ({"name": "Old"}, ("* * * * *", None)),
        ({"cron": "@daily"}, ("@daily", None)),
        ({"delay_seconds": 60}, (None, 60)),
    ],
)
def test_one_kind_of_time_replaces_another(
    changes: dict[str, Any], times: tuple[str | None, int | None]
) -> None:
    new = changed(stored(cron="* * * * *", next_run=0), changes)
    assert (new.cron, new.delay_seconds) == times
    assert (new.name, new.input) == (changes.get("name", "News"), {"content": "Hi"})


def test_due_times_follow_from_the_line_and_the_zone() -> None:
    berlin = timing(NEWS, "Europe/Berlin", START)
    assert (berlin["type"], berlin["timezone"]) == ("cron", "Europe/Berlin")
    assert timing(NEWS, "UTC", START)["next_run"] - berlin["next_run"] == 60 * MINUTE


def test_the_owner_is_stored_with_its_permissions() -> None:
    assert owned_by(LOCAL_PROFILE)["permissions"] is None
    assert owned_by(Profile.named("ann", "chat", "approve"))["permissions"] == ["approve", "chat"]


def test_a_schedule_that_fires_again_is_due_from_now_on() -> None:
    paused = stored(cron="* * * * *", next_run=0, status="paused", reason="its tasks failed")
    again = revived(paused, START)
    assert (again["status"], again["reason"]) == ("active", None)
    assert again["next_run"] == START + MINUTE
    assert revived(paused, START, {"next_run": Moment(7)})["next_run"] == 7


def test_a_schedule_whose_zone_is_gone_fires_again_only_at_other_times() -> None:
    lost = stored(cron="* * * * *", next_run=0, status="paused", timezone="Mars/Base")
    with pytest.raises(InvalidRequest, match="Mars/Base"):
        revived(lost, START)
    assert revived(lost, START, {"timezone": "UTC", "next_run": Moment(7)})["timezone"] == "UTC"
