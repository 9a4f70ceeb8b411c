"""One agent's messages: results follow in the order of the calls, once all have settled."""

from copy import deepcopy
from typing import Any

import pytest
from msgspec import structs

from penstock.core.call import CallPath, ToolCall
from penstock.core.call_errors import Interrupted
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import (
    CallSettled,
    Event,
    ReplyReceived,
    ReplyRestarted,
    TaskStarted,
)
from penstock.core.events.flow_events import AgentReminded, AgentStarted, FlowNotified
from penstock.core.events.history_events import Summarised
from penstock.core.events.hook_events import HookDecided, Verdict
from penstock.core.ids import ArtifactId, CallId, MessageId, TaskId
from penstock.core.messages import AssistantMessage, ToolMessage, UserMessage
from penstock.engine.dialogue import (
    SUMMARY_HEAD,
    Decided,
    Dialogue,
    MessageList,
)
from penstock.engine.session_state import SessionState
from tests.kit.session_events import LOG, ONE, message, outcome, path_of, reply


def said_reply(*calls: str, text: str = "") -> ReplyReceived:
    asked = tuple(ToolCall(CallId(each), "echo", {}) for each in calls)
    return ReplyReceived(iteration=1, base=0, text=text, message_id=MessageId("m"), calls=asked)


def settled(call_id: str) -> CallSettled:
    return CallSettled(
        tool_id="echo",
        envelope=Envelope.success(call_id),
        call_id=CallId(call_id),
        context=call_id,
    )


def test_results_are_read_in_the_order_of_the_calls_once_all_are_there() -> None:
    dialogue = Dialogue(MessageList())
    dialogue.add_reply(said_reply("a", "b"), ())
    dialogue.settle(CallId("b"), settled("b"))
    assert len(dialogue.messages.entries) == 1
    dialogue.settle(CallId("a"), settled("a"))
    results = [each for each in dialogue.messages.entries if isinstance(each, ToolMessage)]
    assert [each.content for each in results] == ["a", "b"]
    assert dialogue.reply is None


def test_the_open_calls_of_a_round_are_those_without_an_outcome_in_their_order() -> None:
    dialogue = Dialogue(MessageList())
    dialogue.add_reply(said_reply("a", "b", "c"), ())
    dialogue.settle(CallId("b"), settled("b"))
    assert [each.call_id for each in dialogue.rounds[-1].open_calls] == ["a", "c"]


def test_two_agents_of_one_task_do_not_hear_each_other() -> None:
    first, second = Dialogue(MessageList()), Dialogue(MessageList())
    first.add_reply(said_reply(text="Only here."), ())
    assert second.messages.entries == []
    assert second.reply is None


def test_a_task_is_forgotten_with_all_that_followed() -> None:
    said = MessageList()
    for number in range(3):
        said.begin(TaskId(f"t{number}"))
        said.add(UserMessage(f"m{number}"), "four")
    before = said.tokens
    assert said.forget(TaskId("t1"))
    assert [each.content for each in said.entries] == ["m0"]
    assert 0 < said.tokens < before
    assert not said.forget(TaskId("t1"))


def test_a_task_is_forgotten_only_with_its_own_requests() -> None:
    """A request before it may have had no answer: then it is where the task begins."""
    said = MessageList()
    said.add(UserMessage("before"), "four")
    said.requests.append((1, 1, 1))
    said.begin(TaskId("t1"))
    said.add(UserMessage("forgotten"), "four")
    said.requests.append((2, 2, 2))
    assert said.forget(TaskId("t1"))
    assert said.requests == [(1, 1, 1)]


# ---- in the state of a task ----

DRAFT, REVIEW = CallPath("task/draft/1"), CallPath("task/review/1")


def at_work(*events: tuple[Event, CallPath | None]) -> SessionState:
    state = SessionState(LOG)
    state.apply(message(), ONE, None, Moment(0))
    state.apply(TaskStarted(), ONE, None, Moment(0))
    for frame in (DRAFT, REVIEW):
        began = AgentStarted(agent="writer", message=f"Do {frame}", system="Rules.")
        state.apply(began, ONE, frame, Moment(0))
    for event, path in events:
        state.apply(event, ONE, path, Moment(0))
    return state


def test_each_agent_reads_only_its_own_messages() -> None:
    """T18: the agent's messages are not in the chat's."""
    state = at_work(
        (reply(1, "a"), DRAFT),
        (reply(1, text="Fine."), REVIEW),
        (outcome("a"), CallPath(f"{DRAFT}/1/tool#a")),
    )
    task = state.current
    assert task is not None
    draft = task.agents[DRAFT].messages.entries
    assert [type(each) for each in draft] == [UserMessage, AssistantMessage, ToolMessage]
    review = task.agents[REVIEW].messages.entries
    assert [each.content for each in review] == [f"Do {REVIEW}", "Fine."]
    assert [each.content for each in state.messages.entries] == ["Hi"]


def test_a_call_belongs_to_the_agent_that_asked_though_another_asked_later() -> None:
    state = at_work(
        (reply(1, "a"), DRAFT),
        (reply(1, "b"), REVIEW),
        (outcome("b"), CallPath(f"{REVIEW}/1/tool#b")),
        (outcome("a"), CallPath(f"{DRAFT}/1/tool#a")),
    )
    task = state.current
    assert task is not None
    found = {path: each.messages.entries[-1].content for path, each in task.agents.items()}
    assert found == {DRAFT: "a done", REVIEW: "b done"}
    assert task.spent.tool_calls == 2
    assert task.spent.model_calls == 2


def test_only_the_reply_of_one_agent_is_reset() -> None:
    state = at_work(
        (reply(1, "a"), DRAFT), (reply(1, "b"), REVIEW), (ReplyRestarted(iteration=1), DRAFT)
    )
    task = state.current
    assert task is not None
    assert task.agents[DRAFT].reply is None
    assert task.agents[REVIEW].reply is not None


def activated(context: str = "…" * 500, **output: Any) -> CallSettled:
    """The outcome of a call of activate_skill."""
    envelope = Envelope.success({"skill_id": "s", **output})
    return CallSettled(
        tool_id="activate_skill", envelope=envelope, call_id=CallId("tc_1"), context=context
    )


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (activated(instructions="Mind it."), ("s",)),
        (activated(), ()),
        (structs.replace(activated(instructions="x"), envelope=Interrupted().envelope()), ()),
        # A hook may edit the outcome, and a program may have its own tool of this name.
        (structs.replace(activated(), envelope=Envelope.success({"instructions": "x"})), ()),
        (structs.replace(activated(), envelope=Envelope.success(["instructions"])), ()),
    ],
)
def test_a_skill_is_told_if_the_messages_have_its_instructions(
    outcome: CallSettled, told: tuple[str, ...]
) -> None:
    """Not any more if a cut has left them out, or its message was replaced."""
    dialogue = Dialogue(MessageList())
    messages = dialogue.messages
    messages.begin(TaskId("task_1"))
    asked = ToolCall(CallId("tc_1"), "activate_skill", {"skill_id": "s"})
    dialogue.add_reply(structs.replace(reply(1), calls=(asked,)), ())
    dialogue.settle(CallId("tc_1"), outcome)
    assert messages.told == told
    short = deepcopy(messages)
    short.shorten(Summarised(results=1))
    assert short.told == ()
    assert messages.forget(TaskId("task_1"))
    assert messages.told == ()


@pytest.mark.parametrize(
    ("outcome", "cut", "told"),
    [
        (activated(instructions="x"), Summarised(results=0), ("s",)),
        (activated(instructions="x"), Summarised(results=1), ()),
        # So short that it is its own preview.
        (activated("x", instructions="x"), Summarised(results=1), ("s",)),
        (activated(instructions="x"), Summarised(tasks=(TaskId("earlier"),)), ("s",)),
        (activated(instructions="x"), Summarised(tasks=(TaskId("task_1"),), text="Once."), ()),
    ],
)
def test_a_cut_takes_instructions_only_with_the_outcome_that_has_them(
    outcome: CallSettled, cut: Summarised, told: tuple[str, ...]
) -> None:
    """Else requests would have them twice: in the messages and in the system prompt."""
    dialogue = Dialogue(MessageList())
    messages = dialogue.messages
    messages.begin(TaskId("earlier"))
    messages.add(UserMessage("Hi"), "Hi")
    messages.begin(TaskId("task_1"))
    asked = ToolCall(CallId("tc_1"), "activate_skill", {"skill_id": "s"})
    dialogue.add_reply(structs.replace(reply(1), calls=(asked,)), ())
    dialogue.settle(CallId("tc_1"), outcome)
    if cut.text:
        messages.begin(TaskId("task_2"))
    messages.shorten(cut)
    assert messages.told == told
    assert len(messages.tellers) == len(told)


def test_instructions_of_a_task_stay_known_when_a_later_one_is_forgotten() -> None:
    dialogue = Dialogue(MessageList())
    messages = dialogue.messages
    for number in (1, 2):
        messages.begin(TaskId(f"task_{number}"))
        asked = ToolCall(CallId(f"tc_{number}"), "activate_skill", {"skill_id": "s"})
        dialogue.add_reply(structs.replace(reply(1), calls=(asked,)), ())
        settled_call = activated(instructions="x", skill_id=f"s{number}")
        call_id = CallId(f"tc_{number}")
        dialogue.settle(call_id, structs.replace(settled_call, call_id=call_id))
    both = messages.told
    assert messages.forget(TaskId("task_2"))
    assert (both, messages.told) == (("s1", "s2"), ("s1",))


def test_an_agent_that_is_reminded_is_asked_again() -> None:
    state = at_work((reply(1, text="Done!"), DRAFT), (AgentReminded(message="Finish."), DRAFT))
    task = state.current
    assert task is not None
    assert task.agents[DRAFT].reply is None
    assert task.agents[DRAFT].messages.entries[-1] == UserMessage("Finish.", is_note=True)


def test_the_story_of_a_run_is_kept_in_its_order() -> None:
    told = [(FlowNotified(kind=each), None) for each in ("flow_jump", "flow_warning")]
    state = at_work(*told)
    assert state.current is not None
    assert state.current.flow_events == [(None, event) for event, _ in told]


LONG = "x" * 400
"""A result that is longer than its preview."""


def talk_of_three() -> MessageList:
    """Return three tasks; each has a call with a long result."""
    dialogue = Dialogue(MessageList())
    for number in range(3):
        dialogue.messages.begin(TaskId(f"t{number}"))
        dialogue.messages.add(UserMessage(f"m{number}"), "four")
        dialogue.add_reply(said_reply(f"c{number}"), ())
        more = {"preview": f"seen {number}", "context": LONG, "artifact_id": ArtifactId("art_1")}
        dialogue.settle(CallId(f"c{number}"), structs.replace(settled(f"c{number}"), **more))
    return dialogue.messages


def results(messages: MessageList) -> list[str]:
    return [each.content for each in messages.entries if isinstance(each, ToolMessage)]


PREVIEWS = [f"[result removed: seen {number}; artifact art_1]" for number in range(3)]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Summarised(), [*PREVIEWS[:2], LONG]),
        (Summarised(results=1), PREVIEWS),
        (Summarised(results=1, keeps_earlier=True), [LONG, LONG, PREVIEWS[2]]),
        (Summarised(tasks=(TaskId("t0"),)), [PREVIEWS[1], LONG]),
        (Summarised(tasks=(TaskId("t0"), TaskId("t1")), text="So it was."), [LONG]),
    ],
    ids=["previews", "all previews", "own previews", "left out", "summary"],
)
def test_an_event_says_which_results_are_read_as_previews(
    event: Summarised, expected: list[str]
) -> None:
    messages = talk_of_three()
    before = messages.tokens
    messages.shorten(event)
    assert results(messages) == expected
    assert messages.tokens < before
    assert messages.shortened_for == "t2"
    assert messages.boundaries[-1].index == len(messages.entries) - 3


def test_a_preview_stays_as_it_is_when_the_history_is_shortened_again() -> None:
    messages = talk_of_three()
    messages.shorten(Summarised())
    tokens = messages.tokens
    messages.shorten(Summarised())
    assert results(messages) == [*PREVIEWS[:2], LONG]
    assert messages.tokens == tokens


def test_a_task_that_replaces_one_that_was_left_out_reads_nothing_that_followed_it() -> None:
    messages = talk_of_three()
    messages.shorten(Summarised(tasks=(TaskId("t0"),)))
    assert messages.forget(TaskId("t0"))
    assert (messages.entries, messages.boundaries, messages.tokens) == ([], [], 0)


def test_a_task_that_replaces_one_in_a_summary_reads_the_summary_alone() -> None:
    messages = talk_of_three()
    messages.shorten(Summarised(tasks=(TaskId("t0"),), text="So it was."))
    assert messages.forget(TaskId("t0"))
    assert [each.content for each in messages.entries] == [f"{SUMMARY_HEAD}\nSo it was."]


@pytest.mark.parametrize(
    ("counted", "above"), [(200, 0), (1000, 300)], ids=["fewer than estimated", "more"]
)
def test_what_a_provider_counted_above_the_estimate_shrinks_with_the_messages(
    counted: int, above: int
) -> None:
    messages = talk_of_three()
    messages.requests.append((9, 400, counted))
    messages.shorten(Summarised())
    ((count, tokens, now),) = messages.requests
    assert (count, tokens) == (0, messages.tokens)
    assert above // 3 <= now - tokens <= above


def test_hooks_are_asked_again_about_a_request_that_was_shortened() -> None:
    dialogue = Dialogue(talk_of_three(), iteration=2)
    keys: list[Decided] = [(None, "before_model", "h", turn) for turn in (1, 2, 3, -1)]
    keys += [(None, "after_reply", "h", 3), (path_of("a"), "before_model", "h", 3)]
    decided = HookDecided(method="before_model", hook="h", verdict=Verdict.PASS)
    decisions = dict.fromkeys(keys, decided)
    dialogue.shorten(Summarised(results=1), decisions)
    assert list(decisions) == [*keys[:2], *keys[4:]]
    assert dialogue.has_previews
    assert dialogue.too_long_at is None


def test_a_request_that_was_too_long_is_remembered_until_its_reply() -> None:
    dialogue = Dialogue(talk_of_three(), iteration=2)
    dialogue.shorten(Summarised(too_long=True), {})
    assert dialogue.too_long_at == dialogue.iteration
    dialogue.add_reply(structs.replace(said_reply(), iteration=3), ())
    assert dialogue.too_long_at != dialogue.iteration


def test_tools_keep_the_order_in_which_they_were_offered_first() -> None:
    messages = MessageList()
    for offered in (("b", "a"), ("a", "b"), ("c", "a"), ()):
        messages.offer(offered)
    assert messages.tools == ("b", "a", "c")
