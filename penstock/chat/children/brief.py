"""The texts of a child: its message, the additions to its system prompt, and its skills.

Shown by tests/chat/children/test_brief.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from penstock.agents.agent import Agent, AnyAgent
from penstock.agents.handoffs import NO_HANDOFFS
from penstock.agents.output_contract import contract_of_schema
from penstock.core.events.child_events import ChildRequested
from penstock.core.ids import LogId
from penstock.core.json_values.json_text import compact
from penstock.core.profile import Profile
from penstock.engine.session_state import SessionState
from penstock.tools.skills import NOTHING, Selection, Skills, TaskSkills

ROLES = {
    "extractor": "Take out of the input exactly what the objective asks for; leave absent things "
    "out and never guess.",
    "classifier": "Put each item into one of the classes that the objective names; say when none "
    "fits.",
    "aggregator": "Join the partial results into one, remove doubles, and name contradictions.",
    "matcher": "Decide which items of the input belong together; give each pair or group with a "
    "short reason.",
    "summarizer": "Write the shortest text that keeps every fact the objective needs.",
    "verifier": "Check each claim against the input; answer with a verdict and the evidence for "
    "it.",
}
"""The sentence of each kind of worker in the system prompt."""
ANY_RESULT = (
    "Your last message is the result of this task, and another program reads it: give the result "
    "alone, without greetings or remarks."
)
TYPED_RESULT = "The result of this task must fit its schema, and another program reads it."


def brief_text(child: ChildRequested, results: Mapping[str, Any]) -> str:
    """Return the first message of a child. `results` are those of its dependencies, by alias."""
    parts = [child.title, child.objective]
    if child.input is not None:
        parts.append(f"Input (JSON):\n{compact(child.input)}")
    if results:
        parts.append(f"Results of earlier tasks (JSON):\n{compact(results)}")
    return "\n\n".join(part for part in parts if part)


def additions(child: ChildRequested) -> tuple[str, str]:
    """Return what follows the instructions of the agent, and what follows those of skills."""
    ending = ANY_RESULT if child.output_schema is None else TYPED_RESULT
    return ROLES.get(child.worker_kind, ""), ending


class NarrowSkills(TaskSkills, eq=False):
    """The skills of a child that may have some tools only."""

    allowed: frozenset[str] | None = None
    """The tools that its model may be offered; None means all."""

    def _select(self, selected: tuple[str, ...]) -> Selection:
        selection = super()._select(selected)
        if self.allowed is None or selection is NOTHING:
            return selection
        tools, inline = selection.tools & self.allowed, selection.inline & self.allowed
        return replace(selection, tools=tools, inline=inline)


def narrowed(skills: TaskSkills, allowed: Sequence[str] | None) -> NarrowSkills:
    """Return the skills of a child, of whose tools only these may be offered; None means all."""
    return NarrowSkills(
        skills.skills,
        skills.state,
        skills.choice,
        skills.profile,
        skills.named,
        allowed=None if allowed is None else frozenset(allowed),
    )


def for_child(agent: Agent, child: ChildRequested) -> Agent:
    """Return an agent as it works on a child."""
    settings = agent.settings
    most = child.max_turns or settings.max_iterations
    schema = child.output_schema
    return agent.__replace__(
        settings=replace(settings, max_iterations=most, selected_skills=()),
        contract=None if schema is None else contract_of_schema(schema, agent.output_form),
        transfers=NO_HANDOFFS,
        handoffs=(),
    )


def skills_of_child(
    skills: Skills, agent: AnyAgent, profile: Profile, child: ChildRequested
) -> TaskSkills:
    """Return the skills of a child before it has a log: those that its request names."""
    choice, nothing = replace(agent.settings.skill_choice, preselected=()), SessionState(LogId(""))
    return TaskSkills(skills, nothing, lambda: choice, profile, child.selected_skills)
