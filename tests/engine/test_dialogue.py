"""One agent's messages: what a model reads is said in the order of its calls, once all settled."""

from penstock.core.call import ToolCall
from penstock.core.envelope import Envelope
from penstock.core.events import CallSettled, ReplyReceived
from penstock.core.ids import CallId, MessageId, TaskId
from penstock.core.messages import ToolMessage, UserMessage
from penstock.engine.dialogue import Dialogue, Said


def reply(*calls: str, text: str = "") -> ReplyReceived:
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
    dialogue = Dialogue(Said())
    dialogue.hear(reply("a", "b"), ())
    dialogue.settle(CallId("b"), settled("b"))
    assert len(dialogue.said.messages) == 1
    dialogue.settle(CallId("a"), settled("a"))
    results = [each for each in dialogue.said.messages if isinstance(each, ToolMessage)]
    assert [each.content for each in results] == ["a", "b"]
    assert dialogue.reply is None


def test_two_agents_of_one_task_do_not_hear_each_other() -> None:
    first, second = Dialogue(Said()), Dialogue(Said())
    first.hear(reply(text="Only here."), ())
    assert second.said.messages == []
    assert second.reply is None


def test_a_task_is_forgotten_with_all_that_followed() -> None:
    said = Said()
    for number in range(3):
        said.begin(TaskId(f"t{number}"))
        said.say(UserMessage(f"m{number}"), "four")
    before = said.tokens
    assert said.forget(TaskId("t1"))
    assert [each.content for each in said.messages] == ["m0"]
    assert 0 < said.tokens < before
    assert not said.forget(TaskId("t1"))
