"""The agents of conversations, with the tools, the model and the skills that each works with.

An agent of a program may have tools of its own. Its invoker is made once, and again after a reload,
which replaces the registry of the project: tools by id and tools of skills come from there. Shown
by tests/chat/test_participants.py.
"""

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.attachments.reading import AttachmentReader, readable
from penstock.agents.catalog import FindModel
from penstock.agents.definition.tools import named_tools
from penstock.agents.handoffs import handoff_tools
from penstock.agents.output_contract import OutputContract
from penstock.agents.prompt import PromptPrefix
from penstock.core.call_errors import NotPermitted
from penstock.core.events.schedule_events import ScheduleFired
from penstock.engine.session_state import SessionState
from penstock.models.model import Model
from penstock.tools.hooks.hooks import AgentHooks
from penstock.tools.invoker import Invoker
from penstock.tools.python.agent_tool import agents_by_name
from penstock.tools.python.toolsets import Toolsets
from penstock.tools.skills import NO_SKILLS, SkillChoice, Skills
from penstock.tools.tool import Registry, Tool

GetAgent = Callable[[str], Agent]


class AgentSetup(NamedTuple):
    """An agent with what it works with."""

    agent: Agent
    invoker: Invoker
    hooks: AgentHooks | None


class Participants:
    """The agents of conversations, with their tools, models and skills."""

    __slots__ = (
        *("_attachments", "_own", "_shared", "_with_outputs"),
        *("agent", "model", "prompt_prefix", "skills", "toolsets"),
    )

    def __init__(
        self,
        agent: GetAgent,
        invoker: Invoker,
        model: FindModel,
        *,
        skills: Skills = NO_SKILLS,
        prompt_prefix: PromptPrefix | None = None,
        attachments: AttachmentReader | None = None,
    ) -> None:
        self._attachments = attachments
        self.agent = agent
        self.model = model
        self.skills = skills
        self.prompt_prefix = prompt_prefix
        """The project's prompt prefix; None means none."""
        self.toolsets = Toolsets(invoker.edition)
        self._shared = invoker
        # Weak keys: a reload replaces agents, and their invokers must go with them.
        self._own: WeakKeyDictionary[Agent, tuple[Registry, Invoker]] = WeakKeyDictionary()
        self._with_outputs: WeakKeyDictionary[Agent, tuple[Registry, Invoker]] = WeakKeyDictionary()

    def invoker(self, agent: Agent) -> Invoker:
        """Return the invoker of an agent: the project's, or one over the agent's own tools."""
        named = agent.profile.tools
        if agent.tools is None and not agent.transfers and not named:
            return self._shared
        own = self._own.get(agent)
        # A reload replaces the registry of the project: tools by id and by skills come from there.
        if own is None or own[0] is not self._shared.registry:
            shared = self._shared.registry
            more: list[Tool] = [*agents_by_name(named, shared, self.agent)]
            more += named_tools(agent.name, agent.tool_ids, shared)
            more += handoff_tools(agent.transfers, self.agent)
            invoker = self._shared
            if more or agent.tools is not None:
                tools = shared if agent.tools is None else agent.tools
                granted = self.skills.added_tools(shared.by_id)
                invoker = self._shared.over(Registry([*tools, *more], granted=granted))
            own = self._own[agent] = (shared, invoker)
        return own[1]

    def setup(self, agent: Agent) -> AgentSetup:
        """Return an agent with its invoker and its hooks, those of the project first."""
        hooks, selected = self._shared.hooks, None
        if agent.hooks or hooks.project:
            selected = hooks.select(agent.name, agent.hooks)
        return AgentSetup(agent, self.invoker(agent), selected)

    def output_invoker(self, setup: AgentSetup, contract: OutputContract) -> Invoker:
        """Return the invoker of an agent, with the output functions of a contract as tools."""
        agent, shared, _ = setup
        if not contract.functions:
            return shared
        kept = self._with_outputs.get(agent)
        if kept is None or kept[0] is not shared.registry:  # a reload replaces the registry
            known = shared.registry
            registry = Registry([*known, *contract.functions], granted=known.granted)
            kept = self._with_outputs[agent] = (known, shared.over(registry))
        return kept[1]

    def has_tool(self, agent: Agent, tool_id: str) -> bool:
        """Whether the agent can continue a call of this tool."""
        # Which tools its toolsets return is known when they are asked: then a call finds its tool.
        if agent.toolsets or tool_id in self.invoker(agent).registry:
            return True
        return agent.contract is not None and tool_id in agent.contract.tool_ids

    def readable(self, model: Model, agent: Agent, state: SessionState) -> Model:
        """Return the model; if the conversation has files, as one that receives them."""
        shows_images = agent.settings.tool_images
        if self._attachments is None or not (state.messages.has_files or shows_images):
            return model
        self._attachments.watch(state)
        return readable(model, self._attachments, state.log_id, tool_images=shows_images)

    def renew(self, prompt_prefix: PromptPrefix | None) -> None:
        """Use the prompt prefix of a reloaded project from now on."""
        self.prompt_prefix = prompt_prefix


def skill_choice_of(agent: Agent, fired: ScheduleFired) -> SkillChoice:
    """Return the skills that an agent may select in a task that a schedule started.

    Raises NotPermitted if the agent lacks a label that the schedule requires.
    """
    choice = agent.settings.skill_choice
    missing = [each for each in fired.required_labels if each not in choice.labels]
    if missing:
        names, schedule = ", ".join(map(repr, missing)), fired.name or fired.schedule_id
        raise NotPermitted(
            f"the schedule {schedule!r} requires the labels {names}, which agent "
            f"{agent.name!r} does not have; add them to the agent, or change the schedule"
        )
    return replace(choice, preselected=()) if fired.skips_preselected else choice
