"""What computes a script, wherever it does: its port, and what it is told of the world."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import asdict

from penstock.sandbox.bridge import Bridge
from penstock.sandbox.entry_timer import EntryTimer
from penstock.sandbox.machine_world import MachineWorld
from penstock.sandbox.messages import Delivery, Message
from penstock.sandbox.script import Bounds, Script

_MESSAGES_PER_CALL = 2
"""It is asked, and it is dropped."""
MIB = 1 << 20
_BLOCK = 64


class EntryRequest(Struct, frozen=True, kw_only=True):
    """What one entry of a script is made of."""

    script: Script
    bridge: Bridge
    bounds: Bounds
    timer: EntryTimer


class Guest(Protocol):
    """Computes one script.

    Contract: the same deliveries give the same messages on each; one that raised is only to be
    freed, and does not compute when it is.
    """

    async def advance(self, deliveries: Sequence[Delivery], held: int) -> Sequence[Delivery]:
        """Hand these over until the script asks for something; returns those that have to wait.

        `held` are the bytes of the host calls that are open. Raises TimeoutError with the reason
        of the timer, and RuntimeError with what broke.
        """
        ...

    def take(self) -> list[Message]:
        """Return what the script has said since the last time."""
        ...

    async def rejections(self) -> list[str]:
        """Return a line for each rejection that nobody took."""
        ...

    def stop(self, reason: str) -> None:
        """End what it computes, from outside."""
        ...

    def free(self) -> None:
        """Free everything."""
        ...


def world_of(request: EntryRequest) -> MachineWorld:
    """Return what a guest is told of the world."""
    bridge, bounds = request.bridge, request.bounds

    def answer(name: str, arguments: Any) -> str:
        settled = bridge.answer(name, arguments)
        if settled.refusal is None:
            return json.dumps({"value": settled.value})
        refusal = {"name": settled.refusal.name} | settled.refusal.detail.to_wire()
        return json.dumps({"refusal": refusal})

    return MachineWorld(
        modules=request.script.modules,
        answer=answer,
        chance=SeededBytes(bridge.seed).take,
        depth=bounds.json_depth,
        most_messages=_MESSAGES_PER_CALL * bounds.host_calls + bounds.log_lines + 2,
        most_held=0,
        most_characters=bounds.message_bytes,
        now_ms=bridge.begins_ms,
    )


def beginning(request: EntryRequest, input: Any) -> Delivery:
    """Return the first that is handed over."""
    script, bridge = request.script, request.bridge
    value = {
        "entry": script.entry,
        "entrypoint": script.entrypoint,
        "input": input,
        "bounds": {_camel(name): value for name, value in asdict(request.bounds).items()},
        "chance": SeededBytes(bridge.seed).words(),
        "now": bridge.begins_ms,
    }
    return Delivery(kind="run", number=0, value=value, at_ms=bridge.begins_ms)


def begin_step(world: MachineWorld, bounds: Bounds, held: int) -> None:
    """Note that a step begins: only so much may be held besides what is held already."""
    world.held, world.most_held = 0, bounds.memory_mb * MIB - held


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class SeededBytes:
    """Bytes from a seed, one after the other."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed[:_BLOCK]
        self._block = 0
        self._left = b""

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        pieces = [self._left]
        have = len(self._left)
        while have < count:
            number = self._block.to_bytes(8, "little")
            pieces.append(hashlib.blake2b(number, key=self._seed).digest())
            self._block += 1
            have += _BLOCK
        found = b"".join(pieces)
        self._left = found[count:]
        return found[:count]

    def words(self) -> list[int]:
        """Return four numbers of 32 bits for the script's own generator; nothing is taken."""
        found = hashlib.blake2b(b"words", key=self._seed, digest_size=16).digest()
        return [int.from_bytes(found[at : at + 4], "little") for at in range(0, 16, 4)]
