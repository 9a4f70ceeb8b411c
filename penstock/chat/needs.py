"""What a task needs from the process that resumes it: its agent, its model, its tools.

A task that has started never fails for what is missing here: the agent, the model or the tool may
be Python objects of another process, and the log has their names only. A task that has not started
needs only its agent, so a mistake in the settings of a model still ends it with a reason. A tool
counts when one of its calls is open and the task was offered it: a name that a model made up gets
TOOL_NOT_FOUND. Shown by tests/journeys/test_blocked.py.
"""

from collections.abc import Iterable, Iterator

from penstock.chat.session import Participants
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events import CallRequested
from penstock.core.flow_events import FlowRequested
from penstock.core.ids import ASSISTANT, LogId
from penstock.core.slash import is_answered_by_model
from penstock.core.task import Missing, MissingKind
from penstock.engine.state import SessionState
from penstock.engine.task_body import Lack
from penstock.engine.task_state import TaskState
from penstock.tools.registry import Registry


class Needs:
    """Compares what tasks need with what this process has."""

    def __init__(self, participants: Participants, registry: Registry) -> None:
        self._participants = participants
        self._registry = registry

    def lacks(self, state: SessionState, task: TaskState) -> Lack | None:
        """Return what the task needs to resume and this process does not have."""
        agent, needed = _needs(state, task)
        missing = tuple(self._missing(state.log_id, agent, needed))
        return Lack(missing, agent) if missing else None

    def has(self, log_id: LogId, lack: Lack) -> bool:
        """Return whether this process has by now what a task of the log lacked."""
        return not any(self._missing(log_id, lack.agent, lack.missing))

    def _missing(
        self, log_id: LogId, agent: str | None, needed: Iterable[Missing]
    ) -> Iterator[Missing]:
        """Return what is not here of that; without the agent nobody can tell about the rest."""
        registry, found = self._registry, None
        if agent is not None:
            try:
                found = self._participants.agent(log_id, agent)
            except NotFound:
                yield Missing(MissingKind.AGENT, agent)
                return
            registry = self._participants.invoker(found).registry
        for each in needed:
            if each.kind is MissingKind.TOOL and each.id not in registry:
                yield each
            elif found is not None and each.kind is MissingKind.MODEL:
                try:
                    self._participants.model(found, each.id or None)
                except ConfigError:
                    yield each


def _needs(state: SessionState, task: TaskState) -> tuple[str | None, list[Missing]]:
    """Return the agent that the task needs, and with which model and tools."""
    brief, started = task.brief, task.started
    if isinstance(brief, FlowRequested):
        return None, []  # its agents are files, and what it began with is in its log
    if isinstance(brief, CallRequested):
        return None, [Missing(MissingKind.TOOL, brief.tool_id)] if started else []
    if task.is_command or (not started and brief and not is_answered_by_model(brief.content)):
        return None, []
    agent = state.opened.agent if state.opened else ASSISTANT
    if started is None:
        return agent, []
    open_calls = task.main.rounds[-1].open_calls if task.main.rounds else []
    names = dict.fromkeys(call.name for call in open_calls if call.name in started.offered)
    tools = [Missing(MissingKind.TOOL, name) for name in names]
    return agent, [Missing(MissingKind.MODEL, started.model or ""), *tools]
