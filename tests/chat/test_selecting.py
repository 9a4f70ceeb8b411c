"""Skills that a request names."""

from penstock.agents.agent import Agent
from penstock.agents.settings import ChatSettings
from penstock.builtins import SKILLS
from penstock.chat.selecting import unknown_skills
from penstock.core.profile import LOCAL_PROFILE
from penstock.tools.access.skills import Skills

ALL = Skills(SKILLS)
SOME = next(iter(SKILLS))


def test_what_can_be_selected_is_fine() -> None:
    assert unknown_skills([SOME], ALL, Agent(), LOCAL_PROFILE) == []
    assert unknown_skills([], ALL, Agent(), LOCAL_PROFILE) == []


def test_what_is_no_skill_is_named_with_its_place_and_the_nearest() -> None:
    (problem,) = unknown_skills([SOME, f"{SOME}x"], ALL, Agent(), LOCAL_PROFILE)
    assert problem.path == "/selectedSkillIds/1"
    assert problem.message == f"no skill '{SOME}x'. Did you mean {SOME!r}?"


def test_what_the_agent_may_not_select_is_none_either() -> None:
    agent = Agent(settings=ChatSettings(skills=()))
    assert [each.path for each in unknown_skills([SOME], ALL, agent, LOCAL_PROFILE)] == [
        "/selectedSkillIds/0"
    ]
