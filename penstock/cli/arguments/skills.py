"""Skills that a command selects with `--skill`."""

from collections.abc import Sequence

import typer

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.chat.session import unknown_skills
from penstock.core.profile import Profile
from penstock.manifest.skill import SkillManifest


def selected(
    runtime: Runtime, agent: str, names: Sequence[str], profile: Profile | None = None
) -> tuple[str, ...]:
    """Return the named skills. Raises BadParameter if one is unknown or cannot be selected."""
    skills, chosen = runtime.parts.skills, runtime.parts.agents.get(agent)
    caller = runtime.local if profile is None else profile
    messages = []
    for problem in unknown_skills(names, skills, chosen, caller):
        name = names[int(problem.path.rpartition("/")[2])]
        skill = skills.find(name)
        messages.append(problem.message if skill is None else _closed(skill, chosen, caller))
    if messages:
        raise typer.BadParameter("; ".join(f"--skill: {each}" for each in messages))
    return tuple(names)


def _closed(skill: SkillManifest, agent: Agent, profile: Profile) -> str:
    """Return why an existing skill cannot be selected. The owner of the project may see why."""
    labels = [each for each in skill.requires_labels if each not in agent.settings.labels]
    permissions = [each for each in skill.requires_permissions if not profile.holds(each)]
    why = [f"the agent {agent.name!r} lacks the label {each!r}" for each in labels]
    why += [f"the profile lacks the permission {each!r}" for each in permissions]
    reasons = ", ".join(why) or f"the agent {agent.name!r} does not have it"
    return f"the skill {skill.skill_id!r} exists but cannot be selected: {reasons}."
