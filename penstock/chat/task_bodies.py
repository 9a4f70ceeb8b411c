"""The body of a task by its kind, and what a task needs from the process that resumes it.

A task is a message, a command, a direct call or a run of a flow; its brief, the event that
requested it, says which. TaskDispatcher chooses the body. Requirements compares what the task needs
(agents, their models, tools) with what this process has.

A task that has started never fails for what is missing here: the agent, the model or the tool may
be Python objects of another process, and the log has their names only. The log is the evidence: an
agent, a model or a tool that the task has used was available once, so it is missing. A name that
the log does not show in use is a mistake of a model or an author, and gets TOOL_NOT_FOUND or its
like. A task that has not started needs only its agent, so a mistake in the settings of a model
still ends it with a reason.

What counts, by kind:

- The agent of the conversation, and the model that the task started with.
- The model of each agent session that has started in the task (steps of a flow, `subagent`) and has
  not ended. Its agent counts only in logs that do not keep the agent's settings.
- A tool with an open call of a model that was offered the tool.
- A tool whose call the log shows as started, at any depth: a write that started, a call that was
  retried, waited, or asked a person. A nested read leaves no such trace.
- A toolset that failed a moment ago, until it may be asked again.
- What a step of a flow lacked when its turn came: `flows/runner` records that in `task_blocked`.

Shown by tests/journeys/test_blocked.py and tests/journeys/test_blocked_flows.py.
"""

from collections.abc import Awaitable, Container, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Protocol

from penstock.agents.agent import Agent
from penstock.agents.catalog import agents_for
from penstock.agents.handoffs import transfer_of
from penstock.chat.calls.direct_calls import CommandWork, DirectCalls
from penstock.chat.children.work import ChildWork
from penstock.chat.inbox import start_of_call
from penstock.chat.participants import GetAgent, Participants
from penstock.chat.recorded.undo_reader import UndoReader
from penstock.chat.recorded.undo_work import UndoWork
from penstock.chat.session import ChatWork
from penstock.chat.task_closer import TaskCloser
from penstock.core.call import FINISH, CallPath, is_below, tools_on
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.events import CallRequested, MessageReceived, TaskEnded, TaskStarted
from penstock.core.events.flow_events import AgentStarted, FlowRequested, StepSettled
from penstock.core.ids import ASSISTANT, LogId
from penstock.core.profile import Profile
from penstock.core.task import Missing, MissingKind
from penstock.engine.dialogue import Dialogue
from penstock.engine.held_log import HeldLog
from penstock.engine.session_state import SessionState
from penstock.engine.slash_commands import is_answered_by_model
from penstock.engine.task_body import MissingParts, Need
from penstock.engine.task_state import AS_TOOL, Brief, TaskState
from penstock.tools.invoker import Invoker
from penstock.tools.tool import Registry

_NO_TOOLS = frozenset(
    {"ask", "fetch", "task.waitForUserMessage", "task.gather", "task.spawn"}
    | {"task.waitForDependencies", "task.waitForBatch", "task.runSubagent"}
)
"""Parts of paths that are not calls of tools: questions of code, and requests of scripts."""


class FlowBody(Protocol):
    """The body of a task that is a run of a flow; `flows` implements it.

    Contract: `work` runs the task until it ends or waits; `end` ends it early with the given end.
    """

    def work(self, held: HeldLog, task: TaskState, brief: FlowRequested) -> Awaitable[None]:
        """Start or continue the run."""
        ...

    def end(self, held: HeldLog, task: TaskState, brief: FlowRequested, ended: TaskEnded) -> None:
        """End the run from outside of its body."""
        ...


class ToolFinder:
    """Finds what calls a tool: the project's invoker, or that of an agent with own tools."""

    def __init__(self, participants: Participants, shared: Invoker) -> None:
        self._participants = participants
        self._shared = shared

    def invoker_of(self, agent: str, tool_id: str) -> Invoker:
        """Return the invoker of the agent if only that has the tool, else the project's."""
        if agent and tool_id not in self._shared.registry:
            with suppress(NotFound):
                own = self._participants.invoker(self._participants.agent(agent))
                if tool_id in own.registry:
                    return own
        return self._shared


class DirectWork:
    """The body of a task that is one direct call, or an undo, which makes several."""

    def __init__(self, calls: DirectCalls, reader: UndoReader) -> None:
        self._calls = calls
        self._undos = UndoWork(calls, reader)

    def work(self, held: HeldLog, task: TaskState, brief: CallRequested) -> Awaitable[None]:
        """Return the coroutine that makes the call, or the reverts of an undo."""
        if brief.undoes is None:
            return self._calls.work(held, task, brief)
        return self._undo(held, task, brief)

    async def _undo(self, held: HeldLog, task: TaskState, brief: CallRequested) -> None:
        """Make the reverts until all are settled, one fails, or one waits for a person."""
        if task.started is None:
            held.add(start_of_call(brief), task.task_id)
        await self._calls.end_with(self._undos.take_back(held, task, brief), held, task)


class TaskDispatcher:
    """Chooses the body of a task by its brief, the event that requested it."""

    def __init__(
        self,
        chat: ChatWork,
        calls: DirectWork,
        commands: CommandWork,
        *,
        flows: FlowBody,
        children: ChildWork,
        closer: TaskCloser,
    ) -> None:
        self._chat = chat
        self._calls = calls
        self._commands = commands
        self._flows = flows
        self._children = children
        self._closer = closer

    def start(self, name: str, message: MessageReceived, profile: Profile) -> TaskStarted | None:
        """Return the start event of a message's task; None if the task cannot start."""
        if is_answered_by_model(message.content):
            return self._chat.start(name, message, profile)
        return self._commands.start(message)

    def work(self, held: HeldLog, task: TaskState) -> Awaitable[None]:
        """Return the coroutine that runs or resumes the task."""
        held.trees = self._children.trees
        if task.waits.children and not isinstance(task.brief, ChildRequested):
            return self._work_in_tree(held, task)
        return self._work(held, task)

    async def _work_in_tree(self, held: HeldLog, task: TaskState) -> None:
        """Run or resume the task at the root of a tree, with what its tree has spent."""
        await self._children.trees.load(task)
        await self._work(held, task)

    def _work(self, held: HeldLog, task: TaskState) -> Awaitable[None]:
        brief = task.brief
        if isinstance(brief, FlowRequested):
            return self._flows.work(held, task, brief)
        if isinstance(brief, CallRequested):
            return self._calls.work(held, task, brief)
        if isinstance(brief, ChildRequested):
            return self._children.work(held, task)
        if task.is_command or (
            task.started is None and brief is not None and not is_answered_by_model(brief.content)
        ):
            return self._commands.work(held, task, brief)
        return self._chat.work(held, task)

    def end(self, held: HeldLog, task: TaskState, ended: TaskEnded) -> None:
        """End a task from outside of its body, for example when it is cancelled."""
        brief = task.brief
        if isinstance(brief, FlowRequested):
            self._flows.end(held, task, brief, ended)
        else:
            self._closer.end(held, task, ended)


class Requirements:
    """Compares what tasks need with what this process has."""

    def __init__(self, participants: Participants, registry: Registry, worker: GetAgent) -> None:
        self._participants = participants
        self._registry = registry
        self._worker = worker
        """Finds the agents that flows and tools put to work."""

    def find_missing(self, state: SessionState, task: TaskState) -> MissingParts | None:
        """Return what the task needs to resume and this process does not have."""
        needs = tuple(self._lacking([*_needs(state, task), *self._next_agent(state, task)]))
        return MissingParts(needs) if needs else None

    def is_available(self, log_id: LogId, lack: MissingParts) -> bool:
        """Return whether this process has the missing parts of a blocked task now."""
        return not any(self._lacking(lack.needs))

    def _next_agent(self, state: SessionState, task: TaskState) -> Iterator[Need]:
        """Yield the agent that takes over next, if the newest calls hand the task off."""
        agent = self._agent(Need(Missing(MissingKind.AGENT, ""), state.agents.newest))
        if agent is not None and (next_one := transfer_of(task.main, agent.transfers)):
            yield Need(Missing(MissingKind.AGENT, next_one.agent), next_one.agent)

    def _lacking(self, needs: Iterable[Need]) -> Iterator[Need]:
        """Yield the missing needs. Without its agent, a model or tool cannot be looked up."""
        agents: dict[tuple[str, bool], Agent | None] = {}
        for need in needs:
            key = (need.agent or "", need.is_worker)
            if need.agent is not None and key not in agents:
                agents[key] = self._agent(need)
            agent = agents.get(key)
            if need.missing.kind is MissingKind.AGENT:
                if agent is None:
                    yield need
            elif (need.is_worker or need.agent is None or agent) and not self._has(need, agent):
                yield need

    def _agent(self, need: Need) -> Agent | None:
        name = need.agent or ""
        try:
            return self._worker(name) if need.is_worker else self._participants.agent(name)
        except NotFound:
            return None

    def _has(self, need: Need, agent: Agent | None) -> bool:
        """Return whether the tool or the model is available. A missing worker is in the log."""
        name = need.missing.id
        if need.missing.kind is MissingKind.TOOLSET:
            return self._participants.toolsets.may_be_asked(name)
        if need.missing.kind is MissingKind.TOOL:
            if agent is None or need.is_worker:
                return name in self._registry or self._is_worker(name)
            return self._participants.has_tool(agent, name)
        try:
            self._participants.model(agent or Agent(ASSISTANT), name or None)
        except ConfigError:
            return False
        return True

    def _is_worker(self, name: str) -> bool:
        """Whether a name is that of an agent: files list agents among their tools."""
        try:
            self._worker(name)
        except NotFound:
            return False
        return True


def _needs(state: SessionState, task: TaskState) -> Iterator[Need]:
    brief, started = task.brief, task.started
    if isinstance(brief, FlowRequested | CallRequested):
        agent = None
        if started and isinstance(brief, CallRequested) and brief.undoes is None:
            yield Need(Missing(MissingKind.TOOL, brief.tool_id))
    elif task.is_command or (not started and _is_unstarted_command(brief)):
        agent = None
    else:
        agent = agents_for(state, task)[-1]
        yield Need(Missing(MissingKind.AGENT, agent), agent)
        if started:
            yield Need(Missing(MissingKind.MODEL, started.model or ""), agent)
            for name in _open(task.main, started.offered):
                yield Need(Missing(MissingKind.TOOL, name), agent)
    if started:
        for name in dict.fromkeys(_started_tools(task)):
            yield Need(Missing(MissingKind.TOOL, name), agent)
        yield from _sessions(task)
        failed = (each for each in task.blocked_on if each.kind is MissingKind.TOOLSET)
        yield from map(Need, failed)
        if isinstance(brief, FlowRequested):
            yield from map(_noted, task.blocked_on)


def _is_unstarted_command(brief: Brief | None) -> bool:
    return isinstance(brief, MessageReceived) and not is_answered_by_model(brief.content)


def _open(dialogue: Dialogue, offered: Iterable[str]) -> Iterable[str]:
    """Return the tools that a model was offered and that have an open call."""
    calls = dialogue.rounds[-1].open_calls if dialogue.rounds else ()
    known = frozenset(offered)
    return dict.fromkeys(call.name for call in calls if call.name in known)


def _started_tools(task: TaskState) -> Iterator[str]:
    """Yield the tools with a started call that is not settled, nor is a call around it.

    The handler of a code step belongs to its step, and its name has a colon.
    """
    frames = [path for path, began in task.started_agents.items() if AS_TOOL in began.charter]
    for path in chain(task.entered, task.waits.parked, task.waits.asked):
        if not _is_over(path, task.settled):
            # Tools of an agent that is a tool itself come with it.
            names = tools_on(next((each for each in frames if is_below(path, each)), path))
            yield from (name for name in names if name not in _NO_TOOLS and ":" not in name)


def _sessions(task: TaskState) -> Iterator[Need]:
    """Yield the needs of the agent sessions that started in the task and have not ended."""
    over = {path for path, event in task.flow_events if path and isinstance(event, StepSettled)}
    for frame, began in task.started_agents.items():
        dialogue = task.agents[frame]
        if AS_TOOL in began.charter:
            continue  # it comes with the tool that it is
        if not (_is_over(frame, task.settled) or _is_over(frame, over) or _has_finished(dialogue)):
            yield from _session(began, dialogue)


def _session(began: AgentStarted, dialogue: Dialogue) -> Iterator[Need]:
    name = began.agent
    if not began.charter:
        yield Need(Missing(MissingKind.AGENT, name), name, is_worker=True)
    yield Need(Missing(MissingKind.MODEL, began.model or ""), name, is_worker=True)
    for tool in _open(dialogue, began.offered):
        yield Need(Missing(MissingKind.TOOL, tool), name, is_worker=True)


def _noted(missing: Missing) -> Need:
    """Return the need of a step that an earlier process could not start."""
    agent = missing.id if missing.kind is MissingKind.AGENT else None
    return Need(missing, agent, is_worker=agent is not None)


def _has_finished(dialogue: Dialogue) -> bool:
    calls = [(each, call) for each in dialogue.rounds for call in each.reply.calls]
    ended = (each.settled.get(call.call_id) for each, call in calls if call.name == FINISH)
    return any(settled is not None and settled.envelope.ok for settled in ended)


def _is_over(path: CallPath, ends: Container[str]) -> bool:
    """Whether the call or the step of a path has ended, or one around it."""
    inner = str(path)
    while inner and inner not in ends:
        inner = inner.rpartition("/")[0]
    return bool(inner)
