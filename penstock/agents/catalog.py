"""The catalog: every agent of a project by name, and the model that answers for it.

A name may occur in several tiers. The project's own agents hide those of packages, and these hide
the built-in ones. Agents of a program (`penstock.open`, `chat`) hide agents of packages and
built-in ones, and stay when the files are read again; a name that one of the project's files has is
refused (`check_free`). Flows see only agents that have a file.
"""

import builtins
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NoReturn

from msgspec.structs import replace

from penstock.agents.agent import DEFAULTS, Agent, AnyAgent
from penstock.agents.agent_folders import AgentFiles
from penstock.agents.agent_profile import AgentProfile, Tier
from penstock.agents.definition.options import digest_of
from penstock.agents.definition.tools import with_inner
from penstock.agents.handoffs import check_handoffs
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError, NameTaken, NotFound
from penstock.core.events.events import MessageReceived
from penstock.core.ids import ASSISTANT
from penstock.engine.session_state import SessionState
from penstock.engine.task_state import TaskState
from penstock.models.fallback import Fallback, around_each
from penstock.models.model import Model
from penstock.models.names import ModelNames, ThinkingModel
from penstock.models.resolve import ModelRegistry
from penstock.resources.dependencies import GivenDeps
from penstock.tools.python.needs import check_needs, needs_of_agent

log = logging.getLogger(__name__)

BUILTIN = (
    Agent(
        ASSISTANT,
        description="Answers questions, and uses the project's tools.",
        instructions="You are a helpful assistant. Use the tools you have when they help.",
        profile=AgentProfile(tier=Tier.BUILT_IN),
    ),
)
"""Agents of every project that have no file."""
_TIERS = tuple(Tier)


class Catalog:
    """Agents by name. A name of an earlier tier hides the same name of a later one."""

    def __init__(
        self,
        local: Iterable[AnyAgent] = (),
        package: Iterable[AnyAgent] = (),
        builtin: Iterable[AnyAgent] = BUILTIN,
        *,
        given: GivenDeps | None = None,
    ) -> None:
        self._given = given
        """The dependencies that added agents are checked with; None checks none."""
        self._package = tuple(package)
        self._builtin = tuple(builtin)
        self._added: dict[str, AnyAgent] = {}
        self._warns = False
        self.broken: Mapping[str, str] = {}
        """Names of agents that only broken files define, with the file to repair."""
        self.renew(local)

    def renew(self, local: Iterable[AnyAgent]) -> None:
        """Replace the project's own agents. Added agents stay."""
        # Lowest tier first: in a dict the last agent of a name wins.
        agents = (*self._builtin, *self._package, *with_handoffs(local), *self._added.values())
        self._agents = {agent.name: _hashed(agent) for agent in agents}
        # Kept apart, because an agent that a program added must not hide a file's from flows.
        self._of_files = {agent.name: agent for agent in agents if agent.has_file}

    def replace_files(self, files: AgentFiles) -> None:
        """Replace the agents of all files by the ones that were read now."""
        self._package = tuple(files.packaged)
        self._builtin = (*BUILTIN, *files.built_in)
        self.broken = files.broken
        self.renew(files.agents)

    def __iter__(self) -> Iterator[AnyAgent]:
        """Yield the agents by name."""
        return iter(self.list())

    def list(self) -> Sequence[AnyAgent]:
        """Return the agents, by name."""
        return [self._agents[name] for name in sorted(self._agents)]

    def list_from_files(self) -> Sequence[AnyAgent]:
        """Return the agents that flows may name, by name. Agents without a file hide none."""
        return [self._of_files[name] for name in sorted(self._of_files)]

    def find_in_files(self, name: str) -> AnyAgent | None:
        """Return the agent with a file of this name, or None."""
        return self._of_files.get(name)

    def get_from_files(self, name: str) -> AnyAgent:
        """Return the agent that a flow names. Raises NotFound with the nearest name."""
        return self._of_files.get(name) or _missing(name, self._of_files)

    def get(self, name: str) -> AnyAgent:
        """Return the agent. Raises NotFound with the nearest name."""
        return self._agents.get(name) or _missing(name, self._agents)

    def find(self, name: str) -> AnyAgent | None:
        """Return the agent, or None: conversations may outlive their agent."""
        return self._agents.get(name)

    def iterations_of(self, name: str) -> int:
        """Return how many requests an agent may make; the default if it does not exist."""
        agent = self._agents.get(name)
        return (DEFAULTS if agent is None else agent.settings).max_iterations

    def admit(self, agent: AnyAgent) -> AnyAgent:
        """Add an agent of the program, which conversations then know by its name. Return it.

        Raises NameTaken as `check_free` does, and ConfigError as `put` does.
        """
        known = self._added.get(agent.name)
        if known is agent:
            return agent
        self.check_free(agent)
        if self._warns and known is None and not _is_notebook():
            self._warn(agent)
        return self.put(agent)

    def _warn(self, agent: AnyAgent) -> None:
        """Report what a restart will not know of an agent: a file says less than a program may."""
        lost = "the agent"
        if _is_same_file(self._agents.get(agent.name), agent):
            parts = {"output": agent.contract, "hooks": agent.hooks, "deps": agent.source_of_deps}
            given = [name for name, part in parts.items() if part]
            if not given:
                return
            lost = f"{' and '.join(given)} beside the file of the agent"
        log.warning(
            "after a restart no process knows %s %r of this conversation: pass it to "
            "penstock.open(agents=[...]), too, so that its tasks can resume",
            lost,
            agent.name,
        )

    def check_free(self, agent: AnyAgent) -> None:
        """Raise NameTaken if the program or a file of the project has another agent of this name.

        In IPython it may replace that one: there, cells run again. Agents of packages and built-in
        ones are hidden.
        """
        known = self._agents.get(agent.name)
        if known is None or known is agent or _is_notebook():
            return
        if agent.name not in self._added and known.profile.tier is not Tier.LOCAL:
            return
        if _is_same_file(known, agent):
            return
        places = _places(known, agent)
        raise NameTaken(
            f"there are two agents {agent.name!r}, at {places}: "
            "conversations find their agent by its name, so rename one, or replace it with "
            "`runtime.put_agent(agent)`"
        )

    def put(self, agent: AnyAgent) -> AnyAgent:
        """Add an agent to an open project, or replace the one of its name. Return it.

        Raises ConfigError if it is none, cannot hand off as it says, or needs dependencies that it
        does not get; it is not added then.
        """
        if not isinstance(agent, Agent):
            raise ConfigError(f"wanted an Agent, such as Agent('clerk'); found {agent!r}")
        if self._given is not None:
            every = with_inner(with_handoffs([agent]))
            check_needs(map(needs_of_agent, every), self._given)
        if agent.handoffs:
            new = [each for each in with_handoffs([agent]) if each is agent or self._takes(each)]
            check_handoffs(new, others=self._agents)
        return self.add(agent)

    def warn_of_added_agents(self) -> None:
        """Report agents that `admit` adds from now on: a restart will not know them."""
        self._warns = True

    def add(self, agent: AnyAgent) -> AnyAgent:
        """Add an agent, or replace the one of its name. Return it.

        The agents that it hands off to are added, too, unless the program added one of their name.
        """
        self._agents[agent.name] = self._added[agent.name] = _hashed(agent)
        if agent.has_file:
            self._of_files[agent.name] = agent
        for other in agent.handoffs:
            if not isinstance(other, str) and self._takes(other):
                self.add(other)
        return agent

    def _takes(self, agent: AnyAgent) -> bool:
        """Whether an agent that another one brings along is added."""
        known = self._added.get(agent.name)
        return known is None or (known is not agent and _is_notebook())


FindModel = Callable[[Agent, str | None], Model]
"""Returns the model of an agent, or the requested one. Raises ConfigError."""


class ModelSelector:
    """Chooses the model of an agent among the models of a project."""

    def __init__(self, models: ModelRegistry, names: ModelNames) -> None:
        self._models = models
        self._names = names

    def choose(self, agent: AnyAgent, requested: str | None) -> Model:
        """Return the model that answers for an agent. Raises ConfigError for an unknown name.

        A model object that the agent was made with answers, unless another model is requested for
        this task. Otherwise `model_name` decides; None means the project's default. The level
        of thinking in the agent's file goes before a level in the name.
        """
        own = agent.model
        if not (own is None or isinstance(own, str)) and requested in {None, own.card.model_id}:
            return own.bound(self._named) if isinstance(own, Fallback) else own
        return self._named(model_name(agent, requested), agent.profile.thinking)

    def _named(self, name: str | None, level: str | None = None) -> Model:
        # A configured name is used as written, even if it looks like `provider:model` or ends like
        # a level of thinking: the operator's table wins over the syntax of names.
        if name is None or self._models.has(name):
            model = self._models.get(name)
        else:
            model = self._models.get(self._names.model(name))
            level = level or self._names.thinking(name)
        if level is None:
            return model
        return around_each(model, partial(ThinkingModel, level=level))

    def role_warning(self, agent: AnyAgent, requested: str | None) -> str:
        """Return a warning if the model is a role without a model, or an empty text."""
        role = self._names.unset(model_name(agent, requested))
        if not role:
            return ""
        return (
            f"the model role @{role} is not set: the project's model is used;"
            f" write {role} under [models.roles]"
        )


def model_name(agent: Agent, wanted: str | None) -> str | None:
    """Return the name of an agent's model; None means the project's default.

    Args:
        agent: The agent.
        wanted: The model that a message or a step asks for; it wins over the agent's own.
    """
    own = agent.model if isinstance(agent.model, str) else None
    return wanted or agent.settings.llm_model or own


def agents_for(state: SessionState, task: TaskState) -> tuple[str, ...]:
    """Return the agents of a task: those that handed it off, then the one that works on it."""
    brief, agents = task.brief, state.agents
    if task.started is None and isinstance(brief, MessageReceived) and brief.supersedes:
        return agents.at_start(brief.supersedes, state.past, state.messages)
    return agents.handed or (agents.newest,)


def _hashed(agent: AnyAgent) -> AnyAgent:
    """Return an agent after its hash was noted; that of an agent file is the hash of its text."""
    if not agent.profile.content_hash:
        agent.profile = replace(agent.profile, content_hash=digest_of(agent))
    return agent


def _is_same_file(known: AnyAgent | None, agent: AnyAgent) -> bool:
    """Whether an agent is that of a file, which was read once more with a type of output."""
    if known is None or not known.has_file:
        return False
    return known.profile.content_hash == agent.profile.content_hash


def _is_notebook() -> bool:
    return hasattr(builtins, "__IPYTHON__")


def catalog_entries(catalog: Catalog) -> list[Json]:
    """Return the entries of `agent_catalog`: agents with files, by tier and name."""
    by_tier = sorted(
        catalog.list_from_files(), key=lambda each: (_TIERS.index(each.profile.tier), each.name)
    )
    return [_entry(each) for each in by_tier]


def name_of(agent: object) -> str:
    """Return the name of an agent that a program gives, or the name that it gives."""
    if isinstance(agent, str):
        return agent
    if isinstance(agent, Agent):
        return agent.name
    raise wrong_agent(agent)


def wrong_agent(given: object) -> ConfigError:
    """Return the error of an argument that is neither an agent nor a name."""
    return ConfigError(
        f"agent= takes an Agent or the name of one, such as agent=clerk; found {given!r}"
    )


def listed(agents: Iterable[AnyAgent]) -> tuple[AnyAgent, ...]:
    """Return the agents that a program gives. Raises ConfigError for anything else."""
    if isinstance(agents, Agent | str) or not isinstance(agents, Iterable):
        raise ConfigError(f"agents= takes a list, such as agents=[clerk]; found {agents!r}")
    given = tuple(agents)
    for agent in given:
        if not isinstance(agent, Agent):
            raise ConfigError(
                f"agents= takes Agent objects, found {agent!r}; agents of files need not be listed"
            )
    return given


def check_names(agents: Iterable[AnyAgent]) -> None:
    """Raise NameTaken for two agents of a program with one name."""
    known: dict[str, AnyAgent] = {}
    for agent in agents:
        if (first := known.setdefault(agent.name, agent)) is not agent:
            raise NameTaken(
                f"penstock.open(agents=[...]) has two agents named {agent.name!r}, at "
                f"{_places(first, agent)}: conversations find their agent by its name, so give one "
                "of them another"
            )


def _places(*agents: AnyAgent) -> str:
    return " and ".join(each.profile.file or each.made_at for each in agents)


def with_handoffs(agents: Iterable[AnyAgent]) -> Sequence[AnyAgent]:
    """Return the agents, and those that they hand off to."""
    found = {agent.name: agent for agent in agents}
    every = [*found.values()]
    for agent in every:
        for other in agent.handoffs:
            if not isinstance(other, str) and other.name not in found:
                found[other.name] = other
                every.append(other)
    return every


def _missing(name: str, names: Collection[str]) -> NoReturn:
    hint = did_you_mean(name, names) or f" There are {', '.join(sorted(names)) or 'none'}."
    raise NotFound(f"There is no agent {name!r}.{hint}")


def _entry(agent: Agent) -> Json:
    agent_profile = agent.profile
    card, purpose = agent_profile.card, agent_profile.purpose
    entry = {
        "inputs": [each.name for each in agent_profile.inputs],
        "outputs": [
            {"name": each.name, **_non_empty(description=each.description)}
            for each in agent_profile.outputs
        ],
        "card": _non_empty(type=card.card_type, label=card.label, metric=card.metric),
    }
    source = _non_empty(source_path=agent_profile.file) if agent_profile.tier is Tier.LOCAL else {}
    return {
        "name": agent.name,
        "description": agent.description,
        "tools": list(agent_profile.tools),
        **{key: value for key, value in entry.items() if value},
        "source_type": agent_profile.tier.value,
        **source,
        "architect": _non_empty(
            use_when=purpose.use_when,
            produces=purpose.produces,
            depends_on=purpose.depends_on,
            domain=purpose.domain,
        ),
    }


def _non_empty(**texts: str) -> dict[str, str]:
    return {key: text for key, text in texts.items() if text}
