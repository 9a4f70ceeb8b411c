"""The frames of one reply: what it thinks, says, and asks for."""

from typing import Any

from penstock.chat.representations import call_part
from penstock.core.events.events import ReplyReceived
from penstock.core.text import cut
from penstock.engine.bus import Delta, DeltaKind, LiveReply
from penstock.server.streams.frame import Position, UnseenFrames


class ReplyFrames:
    """Shows replies, on their way or whole, from the unit on that a reader has come to."""

    __slots__ = ("_argument_chars", "_most", "_unseen")

    def __init__(self, unseen: UnseenFrames, *, max_iterations: int, argument_chars: int) -> None:
        self._unseen = unseen
        self._most = max_iterations
        self._argument_chars = argument_chars

    def begin(self, reply: LiveReply | ReplyReceived) -> None:
        """Show that a model is asked; the closing call is not announced."""
        if not reply.closing:
            iteration = reply.iteration
            frame = {"type": "thinking", "iteration": iteration, "maxIterations": self._most}
            self._unseen.add(Position(reply.base, 0), frame)

    def say(self, delta: Delta) -> None:
        """Show a piece of a reply on its way."""
        self._piece(delta.reply, delta.kind, delta.text, delta.units)

    def finish(self, seq: int, reply: ReplyReceived) -> list[dict[str, Any]]:
        """Show a whole reply, which is event `seq`; returns its calls."""
        self.begin(reply)
        if self._unseen.last < (reply.base, len(reply.reasoning) + len(reply.text)):
            self._pieces(reply)
        return self.ask(seq, reply)

    def ask(self, seq: int, reply: ReplyReceived) -> list[dict[str, Any]]:
        """Show the calls of a whole reply, and return them."""
        units = len(reply.reasoning) + len(reply.text)
        calls = [call_part(each) for each in reply.calls]
        for number, (call, shown) in enumerate(zip(reply.calls, calls, strict=True), 1):
            frame = {"type": "tool_call"} | shown | {"iteration": reply.iteration}
            if call.arguments_text is not None:
                frame["argumentsText"] = cut(call.arguments_text, self._argument_chars)
            is_last = number == len(calls)
            place = Position(seq) if is_last else Position(reply.base, units + number)
            self._unseen.add(place, frame)
        return calls

    def _pieces(self, reply: ReplyReceived) -> None:
        """Show what a whole reply says, run by run: reasoning and text take turns."""
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
        """Show what the reader has not seen of a piece that ends with the unit `end`."""
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
