"""The port of what computes a script, and the world that a script is computed in.

`MachineWorld` is the checkpoint for everything that a script sends. The guest sources bound
messages, too, but a script that breaks QuickJS can call the host functions directly, so their
bounds are not trusted. Here the number of messages, the size of one host call, the bytes held by
open host calls and the size of random values are bounded, and nothing is accepted after the script
has ended. A message beyond a bound ends the script.

`world_of` and `beginning` derive the clock and the randomness of a script from its Bridge alone, so
that every entry of one call computes the same. Proof: tests/sandbox/test_guest.py.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import asdict

from penstock.core.call_errors import OutOfMemory, ScriptError
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.entry_timer import EntryTimer
from penstock.sandbox.messages import ENDINGS, Delivery, Message, read_message
from penstock.sandbox.script import Bounds, Module, Script

_MESSAGES_PER_CALL = 2
"""A host call may be asked and dropped."""
MIB = 1 << 20
_BLOCK = 64
"""Bytes of a BLAKE2b hash, and the most of a key."""
_HEAD = 256
"""Characters allowed before the arguments, for the name and the number of the host call."""
MAX_RANDOM_BYTES = 65_536
"""Most random bytes at once: the limit of crypto.getRandomValues."""
_REAL_FUNCTIONS = {"sha-1": "sha1", "sha-256": "sha256", "sha-384": "sha384", "sha-512": "sha512"}


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


class MachineWorld(Struct, kw_only=True):
    """Modules and host calls of a machine, its limits, and the messages that its script sent."""

    modules: Mapping[str, Module]
    answer: Callable[[str, Any], str]
    """Answers a synchronous host call: takes its name and arguments, returns JSON."""
    random_bytes: Callable[[int], bytes]
    """Returns random bytes, the same sequence in every entry of a call."""
    depth: int
    """Deepest nesting of JSON."""
    max_messages: int
    max_held: int
    """Most bytes of open host calls."""
    max_characters: int = 8 << 20
    """Most characters of the arguments of one host call."""
    now_ms: int = 0
    outbox: list[Message] = field(default_factory=list)
    """Messages of the script that the guest has not taken yet."""
    is_muted: bool = False
    """True during a replay: the messages were received the first time."""
    is_over: bool = False
    """True once the script has reported its end. Later messages are dropped."""
    messages: int = 0
    held: int = 0

    def receive(self, text: str, attachments: Sequence[bytes]) -> None:
        """Check and keep what the script sends: one message, or several separated by NUL."""
        if self.is_muted:
            return
        # A line of the console may contain NUL, so only `ask` and `drop` can be several.
        is_many = text.startswith(("ask", "drop")) and not attachments
        pieces = text.split("\0", self.max_messages) if is_many else [text]
        for piece in pieces:
            self._take(piece, attachments)

    def draw(self, count: int) -> bytes:
        """Return random bytes. Bounded, because no alarm can interrupt a host function."""
        if not 0 <= count <= MAX_RANDOM_BYTES:
            raise ScriptError(
                f"the script asked for {count} random bytes; at most {MAX_RANDOM_BYTES}"
            )
        return self.random_bytes(count)

    def _take(self, text: str, attachments: Sequence[bytes]) -> None:
        self.messages += 1
        if self.is_over:
            return
        if self.messages > self.max_messages:
            raise ScriptError("the script floods its host with messages")
        # Before parsing: parsed JSON takes several times the memory of its text.
        if text.startswith("ask") and len(text) > self.max_characters + _HEAD:
            raise ScriptError("the script sent its host more at once than it may")
        message = read_message(text, attachments, self.depth)
        self.held += message.size
        if self.held > self.max_held:
            raise OutOfMemory("the open host calls of the script hold more than its memory may")
        self.outbox.append(message)
        self.is_over = message.kind in ENDINGS


EMPTY_WORLD = MachineWorld(
    modules={},
    answer=lambda _name, _asked: "{}",
    random_bytes=bytes,
    depth=0,
    max_messages=0,
    max_held=0,
)
"""The world of a machine before `enter`."""


def digest(function: str, content: bytes) -> bytes:
    """Return the hash of bytes. `function` is the Web Crypto name, such as `SHA-256`."""
    return hashlib.new(_REAL_FUNCTIONS[function.lower()], content).digest()


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
        random_bytes=SeededBytes(bridge.seed).take,
        depth=bounds.json_depth,
        max_messages=_MESSAGES_PER_CALL * bounds.host_calls + bounds.log_lines + 2,
        max_held=0,
        max_characters=bounds.message_bytes,
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
        "seed": SeededBytes(bridge.seed).words(),
        "now": bridge.begins_ms,
    }
    return Delivery(kind="run", number=0, value=value, at_ms=bridge.begins_ms)


def begin_step(world: MachineWorld, bounds: Bounds, held: int) -> None:
    """Start to count the bytes of new host calls. With the open ones they share the memory."""
    world.held, world.max_held = 0, bounds.memory_mb * MIB - held


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
