"""The tools that a model is offered: the same rule for its requests and for lists of tools.

A tool is offered if it works, if the agent may use it in a chat, if the profile has the permissions
that it requires, and if no rule hides it. An offer only selects what a model reads: `tools/policy`
checks each call again, with the Caller of the offer.

The tools at the start of a task are fixed by their ids. Selected skills add tools behind them, so
that the beginning of a request stays the same and a provider can cache it. `TaskOffers` makes an
offer again only if the selection changes. A tool that is no longer in the registry is left out.
Proof: tests/agents/test_tool_offer.py.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct, convert
from msgspec.structs import replace

from penstock.agents.agent import Agent, AnyAgent
from penstock.agents.output_contract import OutputContract
from penstock.agents.prompt import NO_ADDITIONS, SKILLS_ARE_ORDERS, skill_prompt, system_prompt
from penstock.core.call import ACTIVATE_SKILL, ASK_USER, Origin
from penstock.core.events.events import MessageReceived
from penstock.core.messages import Message, UserMessage
from penstock.core.profile import LOCAL, Profile
from penstock.engine.dialogue import Dialogue
from penstock.engine.ledger import Ledger
from penstock.models.model import Model, ModelRequest, ToolDefinition
from penstock.models.settings import NOTHING_SET, ModelSettings, overridden
from penstock.tools.hooks.reply_hooks import ReplyHooks
from penstock.tools.policy import AUTHORING, PLUGIN, Caller, RuleSet
from penstock.tools.skills import NOTHING, Selection, TaskSkills
from penstock.tools.tool import Registry, Tool

REPLY_TOKENS = 2048
"""Most tokens of one reply, if neither the agent nor the model says."""
CLOSING_NOTE = UserMessage(
    "No tools are left. Answer the person now, in words, from what you have; say what is missing.",
    is_note=True,
)


class ReservedModelCall(NamedTuple):
    """A model call of the largest size, as the budget reserves it."""

    max_tokens: int
    """Most tokens of the reply."""
    tokens: int
    """Tokens of the request and of such a reply."""
    cost_usd: float | None


class ToolOffer(Struct, frozen=True, kw_only=True):
    """The system prompt, the tools and the Caller, as long as the same skills are selected."""

    system: str
    definitions: tuple[ToolDefinition, ...]
    caller: Caller
    only: tuple[str, ...] | None = None
    """The tools that the model may still call; None for all. The others stay in the request, whose
    beginning is what a provider caches and what signed thinking is bound to."""


class ToolSource(Protocol):
    """A registry of tools with its rules, such as an Invoker."""

    @property
    def registry(self) -> Registry:
        """Return the tools."""
        ...

    @property
    def rules(self) -> RuleSet:
        """Return the rules of the project."""
        ...


class OfferSource(Protocol):
    """Returns what a model is offered in each turn."""

    def at(self, selected: tuple[str, ...], told: tuple[str, ...] = ()) -> ToolOffer:
        """Return the offer while the session has these skills selected.

        The system prompt leaves out those whose instructions are among the messages (`told`).
        """
        ...


class TaskOffers:
    """The offers of one task: the tools of its start, plus those of selected skills."""

    __slots__ = (
        "_fixed",
        "_instructions",
        "_newest",
        "_prompt_prefix",
        "_selected",
        "_shelf",
        "_told",
        "additions",
        "agent",
        "caller",
    )

    def __init__(
        self,
        agent: Agent,
        shelf: ToolSource,
        caller: Caller,
        *,
        fixed: Sequence[str] | None,
        prompt_prefix: Sequence[str] = (),
        instructions: str | None = None,
    ) -> None:
        self.agent = agent
        self.additions = NO_ADDITIONS
        """Sentences of the system prompt after the instructions, and after those of skills."""
        self._instructions = instructions
        """The texts of functions among the agent's instructions; None if there are none."""
        self._shelf = shelf
        self.caller = caller
        self._fixed = fixed
        """Ids of the tools offered at the start; None means no tools, not even those of skills."""
        self._prompt_prefix = prompt_prefix
        self._selected: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        self._newest: ToolOffer | None = None

    def at(self, selected: tuple[str, ...], told: tuple[str, ...] = ()) -> ToolOffer:
        """Return the offer while the session has these skills selected."""
        # The state replaces the tuples when a selection changes, so identity tells if it did.
        if self._newest is None or selected is not self._selected or told is not self._told:
            self._selected, self._told = selected, told
            self._newest = self._offer(selected, told)
        return self._newest

    def _offer(self, selected: tuple[str, ...], told: tuple[str, ...]) -> ToolOffer:
        caller = self.caller
        selection = shown = NOTHING if caller.skills is None else caller.skills.at(selected)
        # Without the tool, the prompt does not say that its outcomes are instructions.
        if told and caller.skills is not None and self._may_activate:
            shown = caller.skills.untold(selected, told)
        if self._fixed is not None and selection is not NOTHING:
            caller = replace(caller, selection=selection)
        return ToolOffer(
            system=self._system(shown),
            definitions=tuple([definition(tool) for tool in self._tools(caller)]),
            caller=caller,
        )

    def _system(self, selection: Selection) -> str:
        skills = self.caller.skills
        skill_text = skill_prompt(skills.skills, selection) if skills and selection.skills else ""
        system = system_prompt(
            self.agent,
            skill_text,
            prompt_prefix=self._prompt_prefix,
            instructions=self._instructions,
            additions=self.additions,
        )
        return f"{system} {SKILLS_ARE_ORDERS}" if self._may_activate else system

    @property
    def _may_activate(self) -> bool:
        return ACTIVATE_SKILL in (self._fixed or ())

    def _tools(self, caller: Caller) -> list[Tool]:
        """Return the tools of the start, then those that the skills add."""
        registry, fixed = self._shelf.registry, self._fixed or ()
        initial = [tool for tool in map(registry.by_id.get, fixed) if tool is not None]
        if caller.selection is NOTHING:
            return initial
        # Behind the tools of the start, so that the beginning of the list stays the same.
        added = (caller.selection.tools | caller.selection.inline).difference(fixed)
        more = [tool for tool_id, tool in registry.by_id.items() if tool_id in added]
        usable = [tool for tool in more if _may_be_used(tool, self.agent, caller.profile)]
        return [*initial, *_not_hidden(usable, self._shelf.rules, caller)]


class OutputOffers:
    """The offers of a task with a typed output: those of its agent, and `final_answer`."""

    __slots__ = ("_is_closed", "_made", "_offers", "contract")

    def __init__(self, offers: OfferSource, contract: OutputContract) -> None:
        self._offers = offers
        self.contract = contract
        self._is_closed = False
        self._made: tuple[ToolOffer, ToolOffer] | None = None

    def at(self, selected: tuple[str, ...], told: tuple[str, ...] = ()) -> ToolOffer:
        """Return the offer while the session has these skills selected."""
        plain = self._offers.at(selected, told)
        # Kept: the transcript compares system prompts by identity.
        if self._made is None or self._made[0] is not plain:
            self._made = (plain, self._extended(plain))
        return self._made[1]

    def close(self) -> None:
        """Let the model call nothing but `final_answer` from now on."""
        if not self._is_closed:
            self._is_closed, self._made = True, None

    def _extended(self, plain: ToolOffer) -> ToolOffer:
        contract, caller = self.contract, plain.caller
        if self._is_closed or contract.functions:
            functions = tuple([each.spec.tool_id for each in contract.functions])
            if self._is_closed:
                caller = replace(caller, agent_tools=functions, skills=None, selection=NOTHING)
            else:
                caller = replace(caller, agent_tools=(*caller.agent_tools, *functions))
        return ToolOffer(
            system=plain.system + contract.instructions,
            definitions=(*plain.definitions, *contract.definitions),
            caller=caller,
            only=tuple([each.name for each in contract.definitions]) if self._is_closed else None,
        )


def request_settings(agent: AnyAgent, ledger: Ledger) -> ModelSettings:
    """Return the settings of a task's requests: those of its message over those of its agent."""
    settings, brief, agents = agent.model_settings, ledger.task.brief, ledger.held.state.agents
    given = brief.model_settings if isinstance(brief, MessageReceived) else None
    # As `model` of a message, for the agents that have the conversation: a tool that it forces, or
    # a level of thinking, may not exist for the agents that work for those.
    if given and agent.name in {agents.first, *agents.handed}:
        settings = convert(given, ModelSettings).over(settings)
    return settings


def user_of(ledger: Ledger) -> str | None:
    """Return the id by which a provider knows whose task it is; None for the local profile."""
    opened = ledger.held.state.opened
    if opened is None or opened.profile_id in {None, LOCAL}:
        return None
    return ledger.pseudonym(opened.profile_id)


class AgentModel:
    """The model of a task, with its offers, settings and hooks."""

    __slots__ = (
        *("_conversation", "_user", "_wanted", "contract", "hooks", "max_tokens", "model"),
        *("offers", "settings"),
    )

    def __init__(
        self,
        model: Model,
        offers: OfferSource,
        agent: AnyAgent,
        ledger: Ledger,
        *,
        contract: OutputContract | None = None,
        hooks: ReplyHooks | None = None,
    ) -> None:
        self.model = model
        self.offers = offers
        self.contract = contract
        """The output that the model must hand in; None for an answer in text."""
        self.settings = settings = agent.settings
        self.hooks = hooks
        """The hooks around its requests and replies; None if the agent has none."""
        self._wanted = wanted = request_settings(agent, ledger)
        """Settings of the message over those of the agent."""
        self._conversation = f"{agent.name} {ledger.held.state.log_id}"
        self._user = user_of(ledger)
        most = settings.llm_max_tokens or model.card.reply_tokens or REPLY_TOKENS
        self.max_tokens = wanted.max_tokens or most

    def offer(self, dialogue: Dialogue, selected: tuple[str, ...]) -> ToolOffer:
        """Return what is offered in a dialogue while the session has these skills selected."""
        return self.offers.at(selected, dialogue.messages.told)

    @property
    def cache_ttl(self) -> str | None:
        """How long the provider keeps the requests of the task."""
        return self._wanted.cache_ttl or self.model.card.cache_ttl

    def request(
        self,
        offer: ToolOffer,
        messages: Sequence[Message],
        *,
        loop_start: int,
        reserved: ReservedModelCall,
        closing: bool,
    ) -> ModelRequest:
        """Return the request for the next reply. The task begins with message `loop_start`."""
        contract = self.contract
        # None leaves the choice to the settings.
        tool_choice = None if contract is None else contract.tool_choice
        # The note follows the messages: another system prompt would cost the provider's cache.
        request = ModelRequest(
            system=offer.system,
            messages=[*messages, CLOSING_NOTE] if closing else messages,
            tools=offer.definitions,
            closing=closing,
            temperature=self.settings.llm_temperature,
            max_tokens=reserved.max_tokens,
            loop_start=loop_start,
            conversation=self._conversation,
            user=self._user,
            estimated_tokens=reserved.tokens,
            tool_choice=tool_choice,
            output=None if contract is None else contract.format,
        )
        if self._wanted is not NOTHING_SET:
            request = replace(overridden(request, self._wanted), max_tokens=reserved.max_tokens)
            if tool_choice is not None:
                request = replace(request, tool_choice=tool_choice)
        if offer.only is None:
            return request
        return replace(request, tool_choice=self._choice(offer.only))

    def _choice(self, only: tuple[str, ...]) -> str | None:
        """Return how a request says that these tools alone may be called."""
        if not only:
            return "none"
        if not self.model.card.forced_tool_choice:
            return None
        return only[0] if len(only) == 1 else "required"


def offered(agent: Agent, shelf: ToolSource, profile: Profile) -> tuple[Tool, ...]:
    """Return the tools that the agent's model is offered, in the order of the registry."""
    settings = agent.settings
    if not settings.tools_enabled:
        return ()
    names, registry = settings.enabled_tools, shelf.registry
    named = registry.offered
    if names is not None:
        wanted = (*names, *agent.transfers)
        named = tuple([tool for tool in registry if tool.spec.tool_id in wanted])
    tools = [tool for tool in named if _may_be_used(tool, agent, profile)]
    if not shelf.rules.is_empty or settings.tool_permissions:
        tools = _not_hidden(tools, shelf.rules, caller_for(agent, profile, ()))
    return tuple(tools)


def _may_be_used(tool: Tool, agent: Agent, profile: Profile) -> bool:
    """Whether the tool works, its agent may use it in a chat, and the profile may call it."""
    spec = tool.spec
    if spec.tool_id == ASK_USER and not agent.profile.is_interactive:
        return False
    if spec.is_broken or spec.tool_id in AUTHORING or spec.kind == PLUGIN:
        return False
    needed = spec.requires_permissions
    return not needed or all(profile.holds(permission) for permission in needed)


def _not_hidden(tools: Sequence[Tool], rules: RuleSet, caller: Caller) -> list[Tool]:
    return [tool for tool in tools if not rules.hides(tool.spec, caller)]


def caller_for(
    agent: Agent,
    profile: Profile,
    offered_ids: Collection[str],
    skills: TaskSkills | None = None,
) -> Caller:
    """Return the model of an agent as a caller."""
    return Caller(
        origin=Origin.MODEL,
        profile=profile,
        agent=agent.name,
        agent_tools=offered_ids,
        skills=skills,
        permissions=agent.settings.tool_permissions,
        question_ttl_seconds=agent.settings.question_ttl_seconds,
        clip_at=agent.settings.result_max_chars,
        access=agent.profile.access,
    )


def definition(tool: Tool) -> ToolDefinition:
    """Return the definition of a tool that a model receives."""
    spec = tool.spec
    return ToolDefinition(
        name=spec.tool_id,
        description=spec.description,
        parameters=spec.parameters,
        is_builtin=spec.kind == "builtin",
    )
