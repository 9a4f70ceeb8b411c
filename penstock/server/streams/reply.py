"""The frames of one model reply: reasoning, text and tool calls.

A reply has the same frames whether it is shown while it arrives (`say`) or from its stored event
(`finish`). A position counts units from the start of the reply, so both paths show only the units
that the reader does not have. This relies on `Delta.units` and `ReplyReceived.order`: both count
reasoning and text in the order in which the model produced them.

Tests: tests/server/streams/test_reply.py.
"""

from typing import Any

from penstock.chat.representations import call_part
from penstock.core.events.events import ReplyReceived
from penstock.core.text import cut
from penstock.engine.bus import Delta, DeltaKind, LiveReply
from penstock.server.streams.frame import Position, UnseenFrames


class ReplyFrames:
    """Converts replies to frames, live or stored, starting after the last unit seen."""

    __slots__ = ("_argument_chars", "_max_iterations", "_unseen")

    def __init__(self, unseen: UnseenFrames, *, max_iterations: int, argument_chars: int) -> None:
        self._unseen = unseen
        self._max_iterations = max_iterations
        self._argument_chars = argument_chars

    def begin(self, reply: LiveReply | ReplyReceived) -> None:
        """Add the frame that announces a model request; a closing request has none."""
        if not reply.closing:
            iteration = reply.iteration
            frame = {
                "type": "thinking",
                "iteration": iteration,
                "maxIterations": self._max_iterations,
            }
            self._unseen.add(Position(reply.base, 0), frame)

    def say(self, delta: Delta) -> None:
        """Add a piece of a reply that is still arriving."""
        self._piece(delta.reply, delta.kind, delta.text, delta.units)

    def finish(self, seq: int, reply: ReplyReceived) -> list[dict[str, Any]]:
        """Add the rest of a stored reply, which is event `seq`; return its calls."""
        self.begin(reply)
        if self._unseen.last < (reply.base, len(reply.reasoning) + len(reply.text)):
            self._pieces(reply)
        return self.ask(seq, reply)

    def ask(self, seq: int, reply: ReplyReceived) -> list[dict[str, Any]]:
        """Add the calls of a stored reply, and return them."""
        units = len(reply.reasoning) + len(reply.text)
        calls = [call_part(call) for call in reply.calls]
        for number, (call, shown) in enumerate(zip(reply.calls, calls, strict=True), 1):
            frame = {"type": "tool_call"} | shown | {"iteration": reply.iteration}
            if call.arguments_text is not None:
                frame["argumentsText"] = cut(call.arguments_text, self._argument_chars)
            # only the last frame has the event's id: a reader that has this id has all of them
            is_last = number == len(calls)
            position = Position(seq) if is_last else Position(reply.base, units + number)
            self._unseen.add(position, frame)
        return calls

    def _pieces(self, reply: ReplyReceived) -> None:
        """Add the stored reasoning and text in the order in which the model alternated them."""
        whole = {DeltaKind.REASONING: reply.reasoning, DeltaKind.TEXT: reply.text}
        taken = dict.fromkeys(whole, 0)
        kind, end = DeltaKind.REASONING, 0
        for length in reply.order or (len(reply.reasoning), len(reply.text)):
            start = taken[kind]
            taken[kind] = start + length
            end += length
            self._piece(reply, kind, whole[kind][start : start + length], end)
            kind = DeltaKind.TEXT if kind is DeltaKind.REASONING else DeltaKind.REASONING

    def _piece(
        self, reply: LiveReply | ReplyReceived, kind: DeltaKind, text: str, end: int
    ) -> None:
        """Add the unseen part of a piece whose last unit is `end`."""
        seq, shown = self._unseen.last
        base = reply.base
        if base < seq or not text:
            return
        unseen = end - shown if base == seq else end
        if unseen <= 0:
            return
        delta = text[-unseen:] if unseen < len(text) else text
        frame: dict[str, Any]
        if kind is DeltaKind.REASONING:
            frame = {"type": "thinking", "iteration": reply.iteration, "delta": delta}
        elif reply.closing:
            frame = {"type": "content_delta", "closing": True, "delta": delta}
        else:
            frame = {"type": "content_delta", "iteration": reply.iteration, "delta": delta}
        self._unseen.add(Position(base, end), frame)
