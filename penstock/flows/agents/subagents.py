"""Subagents: agents that a tool call starts, outside of any step."""

from functools import partial

from penstock.agents.agent import Agent
from penstock.agents.catalog import Catalog
from penstock.core.call import SUBAGENT
from penstock.core.call_errors import BudgetExceeded, CallError, ToolFailed
from penstock.core.diagnostics import nearest
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem
from penstock.engine.ledger import Ledger
from penstock.flows.agents.agent_runner import AgentRunner, AgentVisit, kept_agent
from penstock.flows.agents.briefing import Briefing, brief_call
from penstock.flows.agents.finish import FinishContract
from penstock.flows.runs.visits import VisitOutcome, failed, warn
from penstock.tools.failures import invalid
from penstock.tools.resources import SubagentRequest

_NAMED = 5
"""Number of agents named in an error if no name is similar."""


class Subagents:
    """Runs agents in the frames of calls."""

    def __init__(self, agent_runner: AgentRunner, catalog: Catalog) -> None:
        self._agent_runner = agent_runner
        self._catalog = catalog

    async def run(self, request: SubagentRequest, ledger: Ledger) -> Json:
        """Continue the session of an agent to its end. Return the arguments of its `finish`.

        Raises InvalidInput for an unknown agent, ToolFailed if the agent ended without a valid
        `finish`, BudgetExceeded, and Suspend if it waits for a person.
        """
        agent = self._catalog.find_in_files(request.agent)
        if (started := ledger.task.started_agents.get(request.path)) is not None:
            agent = kept_agent(started, agent)
        if agent is None:
            raise invalid(SUBAGENT, [Problem("/agent", self._unknown(request.agent))])
        session = request.caller.session
        visit = AgentVisit(
            frame=request.path,
            agent=agent,
            contract=FinishContract(outputs=agent.profile.outputs),
            briefing=partial(self._brief, request, ledger),
            profile=request.caller.profile,
            is_autonomous=request.caller.is_autonomous,
            is_architect=session is not None and session.is_architect,
            caller=request.caller,
        )
        ended = await self._agent_runner.pursue(visit, ledger)
        for warning in ended.warnings:
            warn(ledger, request.path, warning, agentName=request.agent)
        if ended.result.finish is None:
            raise _failure(request.agent, ended)
        return dict(ended.result.finish)

    def _brief(
        self, request: SubagentRequest, ledger: Ledger, agent: Agent
    ) -> Briefing | VisitOutcome:
        materials = self._agent_runner.materials
        try:
            briefing, missing = brief_call(agent, request.task, request.inputs, materials=materials)
        except CallError as error:
            return failed("input_file", f"an input cannot be read: {error}")
        unresolved = (f"{reference} names nothing" for reference in missing)
        for warning in (*unresolved, *briefing.missing):
            warn(ledger, request.path, warning, agentName=request.agent)
        return briefing

    def _unknown(self, name: str) -> str:
        known = [each.name for each in self._catalog.list_from_files()]
        message = f'there is no agent "{name}"'
        if file := self._catalog.broken.get(name):
            return f"{message} that works: fix {file} first"
        if near := nearest(name, known):
            return f'{message}; did you mean "{near}"?'
        return f"{message}; there are {', '.join(known[:_NAMED]) or 'none'}"


def _failure(name: str, ended: VisitOutcome) -> CallError:
    if ended.source == "budget":
        return BudgetExceeded(ended.text)
    return ToolFailed(f'agent "{name}" did not finish: {ended.text}')
