"""Passes replies on their way on to readers in other processes, while there are any."""

import asyncio
import logging
from itertools import groupby

from penstock.core.errors import StoreError
from penstock.core.ids import LogId
from penstock.core.limits import World
from penstock.engine.bus import Bus, DeltaKind, LiveReply
from penstock.store.logs.live_text import LiveText, TextPiece, TextPosition

log = logging.getLogger(__name__)


class Relay:
    """Writes what the bus carries of a log, now and then, for as long as the log is followed.

    Nothing here runs, and nobody asks it anything, while nobody follows from another process.
    """

    def __init__(self, live_text: LiveText, bus: Bus, world: World) -> None:
        self._live_text = live_text
        self._bus = bus
        self._clock = world.clock
        self._seconds = world.limits.live_text_seconds
        self._forwarding: dict[tuple[LogId, int], asyncio.Task[None]] = {}
        live_text.listen(self._begin)

    async def close(self) -> None:
        """Pass nothing on any more."""
        forwarding = [*self._forwarding.values()]
        for task in forwarding:
            task.cancel()
        await asyncio.gather(*forwarding, return_exceptions=True)

    def _begin(self, log_id: LogId, epoch: int) -> None:
        """Pass a log on, unless that is being done."""
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
        count, pieces = len(reply.pieces), sent.unsent(reply)
        if not pieces:
            return
        try:
            await self._live_text.write(reply.log_id, epoch, pieces)
        except StoreError as error:
            log.debug("what is said in log %s was not passed on yet: %s", reply.log_id, error)
        else:
            sent.mark_sent(reply, count)


class RelayedReply:
    """How much of which reply was passed on."""

    __slots__ = ("_count", "_reply", "_units")

    def __init__(self) -> None:
        self._reply: LiveReply | None = None
        self._count = 0
        self._units = 0

    def unsent(self, reply: LiveReply) -> list[TextPiece]:
        """Return what is new of a reply, with neighbours of a kind as one piece."""
        is_new = reply is not self._reply
        units = 0 if is_new else self._units
        pieces = [_piece(reply, DeltaKind.TEXT, "", 0)] if is_new else []
        new = reply.pieces[0 if is_new else self._count :]
        for kind, run in groupby(new, key=lambda each: each[0]):
            text = "".join(each[1] for each in run)
            units += len(text)
            if text:
                pieces.append(_piece(reply, kind, text, units))
        return pieces

    def mark_sent(self, reply: LiveReply, count: int) -> None:
        """Note that the reply was passed on as far as its first `count` pieces."""
        self._reply, self._count = reply, count
        self._units = sum(len(text) for _, text in reply.pieces[:count])


def _piece(reply: LiveReply, kind: DeltaKind, text: str, units: int) -> TextPiece:
    return TextPiece(
        task_id=reply.task_id,
        spot=TextPosition(reply.base, units),
        iteration=reply.iteration,
        closing=reply.closing,
        kind=kind.value,
        text=text,
    )
