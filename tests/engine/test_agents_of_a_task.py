"""A task in which several agents are at work, each in a frame of its own."""

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.events import Event, ReplyRestarted, TaskStarted
from penstock.core.flow_events import AgentBegan, AgentReminded, FlowTold
from penstock.core.messages import AssistantMessage, ToolMessage, UserMessage
from penstock.engine.state import SessionState
from tests.kit.events import LOG, ONE, message, outcome, reply

DRAFT, REVIEW = CallPath("task/draft/1"), CallPath("task/review/1")


def at_work(*events: tuple[Event, CallPath | None]) -> SessionState:
    state = SessionState(LOG)
    state.apply(message(), ONE, None, Moment(0))
    state.apply(TaskStarted(), ONE, None, Moment(0))
    for frame in (DRAFT, REVIEW):
        began = AgentBegan(agent="writer", message=f"Do {frame}", system="Rules.")
        state.apply(began, ONE, frame, Moment(0))
    for event, path in events:
        state.apply(event, ONE, path, Moment(0))
    return state


def test_each_agent_reads_what_was_said_to_it_and_nothing_else() -> None:
    """T18: the agent's messages are not in the chat's."""
    state = at_work(
        (reply(1, "a"), DRAFT),
        (reply(1, text="Fine."), REVIEW),
        (outcome("a"), CallPath(f"{DRAFT}/1/tool#a")),
    )
    task = state.current
    assert task is not None
    draft = task.agents[DRAFT].said.messages
    assert [type(each) for each in draft] == [UserMessage, AssistantMessage, ToolMessage]
    review = task.agents[REVIEW].said.messages
    assert [each.content for each in review] == [f"Do {REVIEW}", "Fine."]
    assert [each.content for each in state.said.messages] == ["Hi"]


def test_a_call_belongs_to_the_agent_that_asked_though_another_asked_later() -> None:
    state = at_work(
        (reply(1, "a"), DRAFT),
        (reply(1, "b"), REVIEW),
        (outcome("b"), CallPath(f"{REVIEW}/1/tool#b")),
        (outcome("a"), CallPath(f"{DRAFT}/1/tool#a")),
    )
    task = state.current
    assert task is not None
    found = {path: each.said.messages[-1].content for path, each in task.agents.items()}
    assert found == {DRAFT: "a done", REVIEW: "b done"}
    assert task.tool_calls == 2
    assert task.model_calls == 2


def test_a_reply_that_is_taken_back_is_that_of_one_agent() -> None:
    state = at_work(
        (reply(1, "a"), DRAFT), (reply(1, "b"), REVIEW), (ReplyRestarted(iteration=1), DRAFT)
    )
    task = state.current
    assert task is not None
    assert task.agents[DRAFT].reply is None
    assert task.agents[REVIEW].reply is not None


def test_an_agent_that_is_reminded_is_asked_again() -> None:
    state = at_work((reply(1, text="Done!"), DRAFT), (AgentReminded(message="Finish."), DRAFT))
    task = state.current
    assert task is not None
    assert task.agents[DRAFT].reply is None
    assert task.agents[DRAFT].said.messages[-1] == UserMessage("Finish.")


def test_the_story_of_a_run_is_kept_in_its_order() -> None:
    told = [(FlowTold(kind=each), None) for each in ("flow_jump", "flow_warning")]
    state = at_work(*told)
    assert state.current is not None
    assert state.current.story == [(None, event) for event, _ in told]
