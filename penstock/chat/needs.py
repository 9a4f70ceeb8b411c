"""What a task needs from the process that goes on with it: its agent, its model, its tools.

A task that has started never fails for what is missing here: the agent, the model or the tool may
be Python objects of another process, and the log has their names only. A task that has not started
needs only its agent, so a mistake in the settings of a model still ends it with a reason. A tool
counts when one of its calls is open and the task was offered it: a name that a model made up gets
TOOL_NOT_FOUND. Shown by tests/journeys/test_blocked.py.
"""

from collections.abc import Iterator

from penstock.chat.session import Participants
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events import CallRequested
from penstock.core.flow_events import FlowRequested
from penstock.core.ids import ASSISTANT
from penstock.core.slash import is_answered_by_model
from penstock.core.task import Missing, MissingKind
from penstock.engine.state import SessionState
from penstock.engine.task_state import TaskState
from penstock.tools.registry import Registry


class Needs:
    """Compares what tasks need with what this process has."""

    def __init__(self, participants: Participants, registry: Registry) -> None:
        self._participants = participants
        self._registry = registry

    def lacks(self, state: SessionState, task: TaskState) -> tuple[Missing, ...]:
        """Return what the task needs to go on, and this process does not have."""
        brief = task.brief
        if isinstance(brief, FlowRequested):
            return ()  # its agents are files, and what it began with is in its log
        if isinstance(brief, CallRequested):
            is_gone = task.started is not None and brief.tool_id not in self._registry
            return (Missing(MissingKind.TOOL, brief.tool_id),) if is_gone else ()
        is_queued = task.started is None
        if task.is_command or (is_queued and brief and not is_answered_by_model(brief.content)):
            return ()
        return tuple(self._of_chat(state, task))

    def _of_chat(self, state: SessionState, task: TaskState) -> Iterator[Missing]:
        name = state.opened.agent if state.opened else ASSISTANT
        try:
            agent = self._participants.agent(state.log_id, name)
        except NotFound:
            yield Missing(MissingKind.AGENT, name)
            return
        if task.started is None:
            return
        wanted = task.started.model
        try:
            self._participants.model(agent, wanted)
        except ConfigError:
            yield Missing(MissingKind.MODEL, wanted or "")
        registry = self._participants.invoker(agent).registry
        for tool_id in _open_calls(task):
            if tool_id in task.started.offered and tool_id not in registry:
                yield Missing(MissingKind.TOOL, tool_id)


def _open_calls(task: TaskState) -> list[str]:
    """Return the tools of the calls that the model asked for and that have no outcome yet."""
    rounds = task.main.rounds
    if not rounds:
        return []
    settled = rounds[-1].settled
    names = [call.name for call in rounds[-1].reply.calls if call.call_id not in settled]
    return list(dict.fromkeys(names))
