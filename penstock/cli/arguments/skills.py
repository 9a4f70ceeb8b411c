"""Skills that are selected at the command line."""

from collections.abc import Sequence

import typer

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.chat.selecting import unknown_skills
from penstock.core.profile import Profile
from penstock.manifest.skill import SkillManifest


def selected(
    runtime: Runtime, agent: str, names: Sequence[str], profile: Profile | None = None
) -> tuple[str, ...]:
    """Return the skills that were named. Raises BadParameter for one that cannot be selected."""
    skills, who = runtime.parts.skills, runtime.parts.agents.get(agent)
    whom = runtime.local if profile is None else profile
    said = []
    for problem in unknown_skills(names, skills, who, whom):
        name = names[int(problem.path.rpartition("/")[2])]
        skill = skills.find(name)
        said.append(problem.message if skill is None else _closed(skill, who, whom))
    if said:
        raise typer.BadParameter("; ".join(f"--skill: {each}" for each in said))
    return tuple(names)


def _closed(skill: SkillManifest, agent: Agent, profile: Profile) -> str:
    """Return why a skill that is there cannot be selected: who runs this may know."""
    labels = [each for each in skill.requires_labels if each not in agent.settings.labels]
    permissions = [each for each in skill.requires_permissions if not profile.holds(each)]
    why = [f"the agent {agent.name!r} lacks the label {each!r}" for each in labels]
    why += [f"the profile lacks the permission {each!r}" for each in permissions]
    told = ", ".join(why) or f"it is none of the skills of the agent {agent.name!r}"
    return f"the skill {skill.skill_id!r} is there, but cannot be selected: {told}."
