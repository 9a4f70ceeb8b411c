"""Every agent by name: a project's own before those of packages, these before the built-in one."""

from collections.abc import Iterable, Iterator, Sequence

from penstock.agents.agent import Agent
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import NotFound
from penstock.core.ids import ASSISTANT

BUILTIN = (
    Agent(
        ASSISTANT,
        description="Answers questions, and uses the project's tools.",
        instructions="You are a helpful assistant. Use the tools you have when they help.",
        source="builtin",
    ),
)
"""What every project has."""


class Catalog:
    """Agents by name. A name of an earlier tier hides the same name of a later one."""

    def __init__(
        self,
        local: Iterable[Agent] = (),
        package: Iterable[Agent] = (),
        builtin: Iterable[Agent] = BUILTIN,
    ) -> None:
        self._below = (*builtin, *package)
        self._added: dict[str, Agent] = {}
        self.renew(local)

    def renew(self, local: Iterable[Agent]) -> None:
        """Put others in the place of the project's own; what was added stays."""
        self._agents = {agent.name: agent for agent in (*self._below, *local)} | self._added

    def __iter__(self) -> Iterator[Agent]:
        """Yield the agents by name."""
        return iter(self.list())

    def list(self) -> Sequence[Agent]:
        """Return the agents, by name."""
        return [self._agents[name] for name in sorted(self._agents)]

    def get(self, name: str) -> Agent:
        """Return the agent, or raise NotFound with the nearest name."""
        if agent := self._agents.get(name):
            return agent
        hint = did_you_mean(name, self._agents) or f" There are {', '.join(sorted(self._agents))}."
        raise NotFound(f"There is no agent {name!r}.{hint}")

    def add(self, agent: Agent) -> Agent:
        """Take an agent in, in place of one of its name; return it."""
        self._agents[agent.name] = self._added[agent.name] = agent
        return agent
