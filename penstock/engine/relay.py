"""Forwards live replies to readers in other processes, through the store.

Guarantees: a reader in another process gets the pieces of a reply in order, each once; nothing is
written and no task runs while no other process follows the log; a process that has lost a log
cannot forward for it any more.

How: a follower registers in the store, and the holder of the log is notified. One task per log and
epoch then writes new pieces every `LIVE_TEXT_SECONDS`, until the follower's registration expires. A
typed output is one piece, replaced as it grows by a share of itself. A failed write is repeated
with everything since: `mark_sent` runs only after success.

Relies on: pieces of a reply are only appended; the store refuses writes of an old epoch. Loss is
harmless, because the log gets the whole reply at its end. Shown by tests/engine/test_relay.py.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from itertools import groupby

from msgspec import UNSET

from penstock.core.errors import StoreError
from penstock.core.ids import LogId
from penstock.core.limits import World
from penstock.engine.bus import OUTPUT_GROWTH, Bus, DeltaKind, LiveReply
from penstock.store.logs.log import (
    OUTPUT_KIND,
    OUTPUT_UNITS,
    LiveText,
    TextPiece,
    TextPosition,
)

log = logging.getLogger(__name__)
LIVE_TEXT_SECONDS = 0.1
"""How often pieces are written, and read in the other process. Text that arrives ten times a second
reads as a stream; each time costs a write per followed reply and a query per reader."""


class Relay:
    """Writes live replies of followed logs to the store."""

    def __init__(self, live_text: LiveText, bus: Bus, world: World) -> None:
        self._live_text = live_text
        self._bus = bus
        self._clock = world.clock
        self._seconds = LIVE_TEXT_SECONDS
        self._forwarding: dict[tuple[LogId, int], asyncio.Task[None]] = {}
        live_text.listen(self._begin)

    async def close(self) -> None:
        """Stop forwarding."""
        forwarding = [*self._forwarding.values()]
        for task in forwarding:
            task.cancel()
        await asyncio.gather(*forwarding, return_exceptions=True)

    def _begin(self, log_id: LogId, epoch: int) -> None:
        """Start forwarding a log, unless it is being forwarded."""
        if (log_id, epoch) not in self._forwarding:
            self._forwarding[log_id, epoch] = asyncio.create_task(self._forward_log(log_id, epoch))

    async def _forward_log(self, log_id: LogId, epoch: int) -> None:
        sent = RelayedReply()
        try:
            while self._live_text.is_followed(log_id, epoch):
                reply = self._bus.reply(log_id)
                if reply is not None:
                    await self._forward(reply, epoch, sent)
                await self._clock.sleep(self._seconds)
        finally:
            del self._forwarding[log_id, epoch]

    async def _forward(self, reply: LiveReply, epoch: int, sent: "RelayedReply") -> None:
        # Counted before the write: pieces that arrive during it belong to the next one.
        count, pieces = len(reply.pieces), sent.unsent(reply)
        if not pieces:
            return
        try:
            await self._live_text.write(reply.log_id, epoch, pieces)
        except StoreError as error:
            log.debug("the live reply of log %s was not forwarded yet: %s", reply.log_id, error)
        else:
            sent.mark_sent(reply, count, pieces)


class RelayedReply:
    """How much of which reply was forwarded."""

    __slots__ = ("_count", "_output", "_reply", "_units")

    def __init__(self) -> None:
        self._reply: LiveReply | None = None
        self._count = 0
        self._units = 0
        self._output = ""
        """The JSON of the typed output so far."""

    def unsent(self, reply: LiveReply) -> list[TextPiece]:
        """Return the new pieces of a reply; adjacent pieces of one kind are joined.

        The typed output so far comes last, if it has changed by enough.
        """
        is_new = reply is not self._reply
        units = 0 if is_new else self._units
        pieces = [_piece(reply, DeltaKind.TEXT, "", 0)] if is_new else []
        new = reply.pieces[0 if is_new else self._count :]
        for kind, run in groupby(new, key=lambda piece: piece[0]):
            text = "".join(piece_text for _, piece_text in run)
            units += len(text)
            if text:
                pieces.append(_piece(reply, kind, text, units))
        if reply.output is not None and (partial := reply.output()) is not UNSET:
            output = json.dumps(partial)
            before = "" if is_new else self._output
            # Written whole each time: however slowly it grows, this costs a few times its length.
            grown = len(output) - len(before)
            if output != before and not 0 < grown <= len(before) // OUTPUT_GROWTH:
                pieces.append(_piece(reply, OUTPUT_KIND, output, OUTPUT_UNITS))
        return pieces

    def mark_sent(self, reply: LiveReply, count: int, pieces: Sequence[TextPiece]) -> None:
        """Record that these pieces were forwarded, and with them the first `count` of the reply."""
        if reply is not self._reply:
            self._output = ""
        self._reply, self._count = reply, count
        self._units = sum(len(text) for _, text in reply.pieces[:count])
        if pieces[-1].kind == OUTPUT_KIND:
            self._output = pieces[-1].text


def _piece(reply: LiveReply, kind: str, text: str, units: int) -> TextPiece:
    return TextPiece(
        task_id=reply.task_id,
        spot=TextPosition(reply.base, units),
        iteration=reply.iteration,
        closing=reply.closing,
        kind=kind,
        text=text,
    )
