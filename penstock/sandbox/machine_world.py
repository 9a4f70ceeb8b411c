"""The surroundings of a machine: its modules, clock, randomness, and its outbox of messages.

This is the checkpoint for everything that a script sends. The guest sources bound messages, too,
but a script that breaks QuickJS can call the host functions directly, so their bounds are not
trusted. Here the number of messages, the size of one host call, the bytes held by open host calls
and the size of random values are bounded, and nothing is accepted after the script has ended. A
message beyond a bound ends the script. Proof: tests/sandbox/test_machine_world.py.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.call_errors import OutOfMemory, ScriptError
from penstock.sandbox.messages import ENDINGS, Message, read_message
from penstock.sandbox.script import Module

_HEAD = 256
"""Characters allowed before the arguments, for the name and the number of the host call."""
MOST_CHANCE = 65_536
"""Most random bytes at once: the limit of crypto.getRandomValues."""


class MachineWorld(Struct, kw_only=True):
    """What a machine can reach, its limits, and the messages that its script sent."""

    modules: Mapping[str, Module]
    answer: Callable[[str, Any], str]
    """Answers a synchronous host call: takes its name and arguments, returns JSON."""
    chance: Callable[[int], bytes]
    """Returns random bytes, the same sequence in every entry of a call."""
    depth: int
    """Deepest nesting of JSON."""
    most_messages: int
    most_held: int
    """Most bytes of open host calls."""
    most_characters: int = 8 << 20
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
        pieces = text.split("\0", self.most_messages) if is_many else [text]
        for piece in pieces:
            self._take(piece, attachments)

    def draw(self, count: int) -> bytes:
        """Return random bytes. Bounded, because no alarm can interrupt a host function."""
        if not 0 <= count <= MOST_CHANCE:
            raise ScriptError(f"the script asked for {count} random bytes; at most {MOST_CHANCE}")
        return self.chance(count)

    def _take(self, text: str, attachments: Sequence[bytes]) -> None:
        self.messages += 1
        if self.is_over:
            return
        if self.messages > self.most_messages:
            raise ScriptError("the script floods its host with messages")
        # Before parsing: parsed JSON takes several times the memory of its text.
        if text.startswith("ask") and len(text) > self.most_characters + _HEAD:
            raise ScriptError("the script sent its host more at once than it may")
        message = read_message(text, attachments, self.depth)
        self.held += message.size
        if self.held > self.most_held:
            raise OutOfMemory("the open host calls of the script hold more than its memory may")
        self.outbox.append(message)
        self.is_over = message.kind in ENDINGS


_REAL_FUNCTIONS = {"sha-1": "sha1", "sha-256": "sha256", "sha-384": "sha384", "sha-512": "sha512"}


def digest(function: str, content: bytes) -> bytes:
    """Return the hash of bytes. `function` is the Web Crypto name, such as `SHA-256`."""
    return hashlib.new(_REAL_FUNCTIONS[function.lower()], content).digest()


NOWHERE = MachineWorld(
    modules={},
    answer=lambda _name, _asked: "{}",
    chance=bytes,
    depth=0,
    most_messages=0,
    most_held=0,
)
"""The world of a machine before `enter`."""
