"""Skills that a request names: those that nobody there can select are refused before the task."""

from collections.abc import Sequence

from penstock.agents.agent import Agent
from penstock.agents.offer import skills_of
from penstock.core.diagnostics import did_you_mean
from penstock.core.ids import LogId
from penstock.core.json_values.schema import Problem
from penstock.core.profile import Profile
from penstock.engine.state import SessionState
from penstock.tools.access.skills import Skills, TaskSkills


def unknown_skills(
    names: Sequence[str], skills: Skills, agent: Agent, profile: Profile
) -> list[Problem]:
    """Return which of the named skills the agent may not select for this profile, or are none."""
    if not names:
        return []
    nothing = SessionState(LogId(""))
    of_task = TaskSkills(skills, nothing, skills_of(agent), profile=profile)
    known = {each.skill_id for each in of_task.visible()}
    return [
        Problem(f"/selectedSkillIds/{place}", f"no skill {name!r}.{did_you_mean(name, known)}")
        for place, name in enumerate(names)
        if name not in known
    ]
