"""What surrounds a machine: its modules, its clock and chance, and who hears what it says."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.call_errors import OutOfMemory, ScriptError
from penstock.sandbox.messages import ENDINGS, Message, read_message
from penstock.sandbox.script import Module

_HEAD = 256
"""Characters before the arguments: what is asked, and under which number."""
MOST_CHANCE = 65_536
"""Bytes at once: what crypto.getRandomValues gives."""


class MachineWorld(Struct, kw_only=True):
    """What a machine is told of the world, and what it says."""

    modules: Mapping[str, Module]
    answer: Callable[[str, Any], str]
    """Takes the name and the arguments of a question, returns its answer as JSON."""
    chance: Callable[[int], bytes]
    depth: int
    """How deeply JSON may be nested."""
    most_messages: int
    most_held: int
    """Bytes of host calls that are open."""
    most_characters: int = 8 << 20
    """Of the arguments of one host call."""
    now_ms: int = 0
    said: list[Message] = field(default_factory=list)
    """What the script told, until somebody takes it."""
    is_muted: bool = False
    """It is being brought to where it has been: what it says was heard."""
    is_over: bool = False
    """The script has said how it ended; what it left behind does not run."""
    messages: int = 0
    held: int = 0

    def hear(self, text: str, attachments: Sequence[bytes]) -> None:
        """Take what the script says; its own caps are not trusted."""
        if self.is_muted:
            return
        is_many = text.startswith(("ask", "drop")) and not attachments
        pieces = text.split("\0", self.most_messages) if is_many else [text]
        for piece in pieces:
            self._take(piece, attachments)

    def draw(self, count: int) -> bytes:
        """Return bytes by chance: they are made while nothing can stop the script."""
        if not 0 <= count <= MOST_CHANCE:
            raise ScriptError(f"the script wants {count} bytes by chance at once")
        return self.chance(count)

    def _take(self, text: str, attachments: Sequence[bytes]) -> None:
        self.messages += 1
        if self.is_over:
            return
        if self.messages > self.most_messages:
            raise ScriptError("the script floods its host with messages")
        if text.startswith("ask") and len(text) > self.most_characters + _HEAD:
            raise ScriptError("the script sent its host more at once than it may")
        message = read_message(text, attachments, self.depth)
        self.held += message.size
        if self.held > self.most_held:
            raise OutOfMemory("the open host calls of the script hold more than its memory may")
        self.said.append(message)
        self.is_over = message.kind in ENDINGS


_REAL_FUNCTIONS = {"sha-1": "sha1", "sha-256": "sha256", "sha-384": "sha384", "sha-512": "sha512"}


def digest(function: str, content: bytes) -> bytes:
    """Return the hash of bytes by a function as scripts name it."""
    return hashlib.new(_REAL_FUNCTIONS[function.lower()], content).digest()


NOWHERE = MachineWorld(
    modules={},
    answer=lambda _name, _asked: "{}",
    chance=bytes,
    depth=0,
    most_messages=0,
    most_held=0,
)
"""Where a machine is that has not been told."""
