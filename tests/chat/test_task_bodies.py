"""The requirements of a task, by its progress."""

import pytest

from penstock.agents.agent import Agent
from penstock.chat.participants import Participants
from penstock.chat.task_bodies import Requirements
from penstock.core.call import ToolCall
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events.events import CallRequested, MessageReceived, ReplyReceived, TaskStarted
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import CallId, MessageId, TaskId
from penstock.core.task import Missing, MissingKind
from penstock.engine.session_state import SessionState
from penstock.engine.task_body import MissingParts, Need
from penstock.engine.task_state import Brief, TaskState
from penstock.models.model import Model
from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import memory_runtime
from penstock.tools.invoker import Invoker
from penstock.tools.tool import Registry
from tests.kit.session_events import ANN, LOG
from tests.kit.tools import Act

MESSAGE = MessageReceived(message_id=MessageId("msg_1"), content="Go")
COMMAND = MessageReceived(message_id=MessageId("msg_1"), content="/help")
CALL = CallRequested(tool_id="gone", input={}, profile_id=ANN)
FLOW = FlowRequested(command="gone", profile_id=ANN)
STARTED = TaskStarted(model="gone", offered=("gone", "here"))
HERE = TaskStarted(model="here", offered=("gone", "here"))
AGENT, MODEL = Missing(MissingKind.AGENT, "assistant"), Missing(MissingKind.MODEL, "gone")
TOOL = Missing(MissingKind.TOOL, "gone")

ROWS: dict[str, tuple[Brief, TaskStarted | None, list[str], bool, tuple[Missing, ...]]] = {
    "a queued message needs its agent": (MESSAGE, None, [], False, (AGENT,)),
    "and no model yet": (MESSAGE, None, [], True, ()),
    "a started one needs its agent": (MESSAGE, STARTED, ["gone"], False, (AGENT,)),
    "and its model": (MESSAGE, STARTED, [], True, (MODEL,)),
    "and the tools of its open calls": (MESSAGE, HERE, ["gone", "here", "gone"], True, (TOOL,)),
    "all that is missing is named": (MESSAGE, STARTED, ["gone"], True, (MODEL, TOOL)),
    "a name that a model made up is none": (MESSAGE, HERE, ["made up"], True, ()),
    "a tool that is there": (MESSAGE, HERE, ["here"], True, ()),
    "a command needs nothing": (COMMAND, None, [], False, ()),
    "a queued call is refused when it runs": (CALL, None, [], False, ()),
    "a started call needs its tool": (CALL, STARTED, [], False, (TOOL,)),
    "a flow keeps what it needs": (FLOW, STARTED, [], False, ()),
}


class Household:
    """A process with one agent, one model and one tool, or without the agent."""

    def __init__(self, invoker: Invoker, *, has_agent: bool) -> None:
        self._has_agent = has_agent
        self.invoker = invoker

    def agent(self, name: str) -> Agent:
        if not self._has_agent:
            raise NotFound(f"There is no agent {name!r}.")
        return Agent(name)

    def model(self, agent: Agent, requested: str | None) -> Model:
        if requested != "here":
            raise ConfigError(f"There is no model {requested!r}.")
        return ScriptedModel([])


def no_worker(name: str) -> Agent:
    raise NotFound(f"There is no agent {name!r}.")


@pytest.mark.parametrize(
    ("brief", "started", "calls", "has_agent", "expected"), ROWS.values(), ids=list(ROWS)
)
async def test_missing_parts_of_a_task_are_reported(
    *,
    brief: Brief,
    started: TaskStarted | None,
    calls: list[str],
    has_agent: bool,
    expected: tuple[Missing, ...],
) -> None:
    task = TaskState(TaskId("task_1"), brief, started=started)
    if calls:
        calls_made = tuple(ToolCall(CallId(f"tc_{n}"), name, {}) for n, name in enumerate(calls))
        reply = ReplyReceived(
            iteration=1, base=0, text="", message_id=MessageId("msg_2"), calls=calls_made
        )
        task.add_reply(reply, None, (), 0)
    async with memory_runtime(tools=[Act("here")]) as runtime:
        household = Household(runtime.parts.tools.invoker, has_agent=has_agent)
        participants = Participants(household.agent, household.invoker, household.model)
        needs = Requirements(participants, Registry([Act("here")]), no_worker)
        lack = needs.find_missing(SessionState(LOG), task)
        assert (lack.missing if lack else ()) == expected
        assert lack is None or not needs.is_available(LOG, lack)


def lack(*missing: Missing, agent: str | None = None, is_worker: bool = False) -> MissingParts:
    return MissingParts(tuple(Need(each, agent, is_worker) for each in missing))


HERE_MODEL = Missing(MissingKind.MODEL, "here")
HAS: dict[str, tuple[MissingParts, bool]] = {
    "the agent has come": (lack(AGENT, agent="assistant"), True),
    "the model has not": (lack(MODEL, agent="assistant"), False),
    "the model has": (lack(HERE_MODEL, agent="assistant"), True),
    "the tool of a direct call has come": (lack(TOOL), True),
    "the project has the tool, but not the agent": (lack(TOOL, agent="assistant"), False),
    "one of two has come": (lack(HERE_MODEL, TOOL, agent="assistant"), False),
    "the agent of a flow has not": (lack(AGENT, agent="assistant", is_worker=True), False),
    "its tools are the project's": (lack(TOOL, agent="gone", is_worker=True), True),
    "its model needs no file of it": (lack(HERE_MODEL, agent="gone", is_worker=True), True),
}


@pytest.mark.parametrize(("lack", "expected"), HAS.values(), ids=list(HAS))
async def test_parts_that_have_appeared_are_no_longer_missing(
    *, lack: MissingParts, expected: bool
) -> None:
    async with memory_runtime(tools=[Act("here")]) as runtime:
        household = Household(runtime.parts.tools.invoker, has_agent=True)
        participants = Participants(household.agent, household.invoker, household.model)
        needs = Requirements(participants, Registry([Act("gone")]), no_worker)
        assert needs.is_available(LOG, lack) is expected
