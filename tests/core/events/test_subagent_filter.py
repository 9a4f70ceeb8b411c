"""Events of subagents are not events of the chat that started them."""

import pytest

from penstock.core.call import CallPath
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Event, ReplyReceived, ReplyRestarted
from penstock.core.events.flow_events import AgentReminded, AgentStarted
from penstock.core.events.subagent_filter import SubagentFilter
from penstock.core.ids import CallId, MessageId

FRAME = CallPath("t/1/subagent#a")
REPLY = ReplyReceived(iteration=1, base=1, text="x", message_id=MessageId("m"))
SETTLED = CallSettled(tool_id="x", envelope=Envelope.success(1), call_id=CallId("tc"))


@pytest.mark.parametrize(
    ("event", "path", "is_aside"),
    [
        (REPLY, None, False),
        (REPLY, FRAME, True),
        (ReplyRestarted(iteration=1), None, False),
        (ReplyRestarted(iteration=1), FRAME, True),
        (AgentReminded(message="m"), FRAME, True),
        (SETTLED, FRAME, False),
        (SETTLED, "t/1/subagent#ab", False),
        (SETTLED, "t/1/other#a/inner#b", False),
        (SETTLED, f"{FRAME}/1/read#b", True),
        (SETTLED, f"{FRAME}/1/tool#b/inner#c", True),
        (SETTLED, None, False),
    ],
)
def test_replies_in_a_frame_and_calls_below_one_are_aside(
    event: Event, path: CallPath | None, is_aside: bool
) -> None:
    aside = SubagentFilter()
    assert aside.has(AgentStarted(agent="a", message="m", system="s"), FRAME)
    assert aside.has(event, path) is is_aside


def test_without_an_agent_every_call_is_the_chats() -> None:
    assert not SubagentFilter().has(SETTLED, CallPath(f"{FRAME}/1/read#b"))
