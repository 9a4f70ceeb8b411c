"""Checks the skills that a request selects, before its task is accepted."""

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
    """Return the named skills that do not exist or that this agent and profile may not select."""
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
