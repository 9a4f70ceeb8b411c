"""The port of what computes a script (in this process or another), and what it starts with."""

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
"""A host call may be asked and dropped."""
MIB = 1 << 20
_BLOCK = 64
"""Bytes of a BLAKE2b hash, and the most of a key."""


class EntryRequest(Struct, frozen=True, kw_only=True):
    """One entry of a script: what runs, what it can reach, and how much it may use."""

    script: Script
    bridge: Bridge
    bounds: Bounds
    timer: EntryTimer


class Guest(Protocol):
    """Computes one script.

    Contract: a guest is deterministic: the same deliveries lead to the same messages. After
    `advance` raised, only `free` may be called, and the script computes no more.
    """

    async def advance(self, deliveries: Sequence[Delivery], held: int) -> Sequence[Delivery]:
        """Deliver until the script makes a host call; return the deliveries that are left.

        `held` is the number of bytes of open host calls. Raises TimeoutError with a reason of the
        timer, and RuntimeError if the engine broke.
        """
        ...

    def take(self) -> list[Message]:
        """Return the messages of the script since the last call."""
        ...

    async def rejections(self) -> list[str]:
        """Return a line for each unhandled rejection."""
        ...

    def stop(self, reason: str) -> None:
        """Stop the script, from outside of its entry."""
        ...

    def free(self) -> None:
        """Release the memory or the process."""
        ...


def world_of(request: EntryRequest) -> MachineWorld:
    """Return a new world for a guest of this entry, with its limits."""
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
    """Return the first delivery: it starts the script."""
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
    """Start to count the bytes of new host calls. With the open ones they share the memory."""
    world.held, world.most_held = 0, bounds.memory_mb * MIB - held


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class SeededBytes:
    """The randomness of one call: an endless sequence of bytes from a seed.

    Each entry of a call starts at the beginning of the same sequence, so a replay repeats it.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed[:_BLOCK]
        self._block = 0
        self._left = b""

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        pieces = [self._left]
        size = len(self._left)
        while size < count:
            number = self._block.to_bytes(8, "little")
            pieces.append(hashlib.blake2b(number, key=self._seed).digest())
            self._block += 1
            size += _BLOCK
        content = b"".join(pieces)
        self._left = content[count:]
        return content[:count]

    def words(self) -> list[int]:
        """Return four 32-bit numbers that seed Math.random. Does not advance the sequence."""
        content = hashlib.blake2b(b"words", key=self._seed, digest_size=16).digest()
        return [int.from_bytes(content[at : at + 4], "little") for at in range(0, 16, 4)]
