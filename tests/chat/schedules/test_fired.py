"""What a schedule changes in the tasks that it starts."""

from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.chat.schedules.fired import skill_choice_of
from penstock.core.call_errors import NotPermitted
from penstock.core.events.schedule_events import ScheduleFired
from penstock.core.ids import ScheduleId

CLERK = Agent("clerk", settings=ChatSettings(labels=("press",), selected_skills=("news",)))


def fired(**more: Any) -> ScheduleFired:
    return ScheduleFired(schedule_id=ScheduleId("s"), name="S", **more)


def test_tasks_select_what_the_agent_preselects() -> None:
    assert skill_choice_of(CLERK, fired()) == CLERK.settings.skill_choice


def test_preselected_skills_are_left_out_if_the_schedule_wants_that() -> None:
    assert skill_choice_of(CLERK, fired(skips_preselected=True)).preselected == ()


def test_an_agent_without_a_required_label_runs_nothing() -> None:
    assert skill_choice_of(CLERK, fired(required_labels=("press",))).labels == {"press"}
    with pytest.raises(NotPermitted, match="requires the labels 'vip', which agent 'clerk'"):
        skill_choice_of(CLERK, fired(required_labels=("press", "vip")))
