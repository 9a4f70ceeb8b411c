"""Replies with what their provider receives back, as they are stored."""

from penstock.core.events.events import Event, ReplyReceived
from penstock.core.ids import MessageId
from penstock.core.messages import Carry, Usage

STORED_REPLIES: tuple[tuple[Event, str, str], ...] = (
    (
        ReplyReceived(
            iteration=1,
            base=4,
            text="so",
            message_id=MessageId("msg_1"),
            usage=Usage(
                cached_tokens=4,
                cache_write_tokens=3,
                cache_write_long_tokens=2,
                reasoning_tokens=1,
            ),
            carry=Carry("p@h", "m", "f0", ({"type": "thinking", "signature": "s"},)),
            carry_dropped=True,
            refusal="no",
            response_id="r1",
        ),
        "reply_received",
        """{"iteration":1,"base":4,"text":"so","message_id":"msg_1",
        "usage":{"cached_tokens":4,"cache_write_tokens":3,"cache_write_long_tokens":2,
        "reasoning_tokens":1},"carry":{"provider":"p@h","family":"m","prefix":"f0",
        "parts":[{"type":"thinking","signature":"s"}]},"carry_dropped":true,"refusal":"no",
        "response_id":"r1"}""",
    ),
)
