"""What a script may ask of its host, and nothing else."""

from collections.abc import Awaitable
from typing import Any, Protocol

from msgspec import Struct

from penstock.core.envelope import ErrorDetail


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a host call rejects."""

    name: str
    """Of the error that the script sees: `FloError`, `TypeError`, `AbortError`, `RangeError`."""
    detail: ErrorDetail


class HostCallResult(Struct, frozen=True, kw_only=True):
    """How a host call ended."""

    value: Any = None
    """JSON, or bytes, which the script sees as a Uint8Array."""
    refusal: Refusal | None = None
    at_ms: int
    """What the script's clock shows from then on, in ms since 1970."""
    order: int | None = None
    """The place among what was recorded before this entry; None has just happened."""


class Bridge(Protocol):
    """The host's side of one entry of one script: the capability that the script holds.

    Contract: whoever runs the script trusts nothing it sends, and hands every host call over as it
    comes. What is recorded is delivered one at a time, the lowest `order` of what was asked first,
    with all jobs of the script done in between, and before anything that has just happened.
    """

    @property
    def seed(self) -> bytes:
        """32 bytes for the script's chance: the same in every entry of one call."""
        ...

    @property
    def task(self) -> str:
        """Whose entry it is: where processes are scarce, tasks take turns."""
        ...

    @property
    def begins_ms(self) -> int:
        """What the script's clock shows until the first host call is delivered."""
        ...

    def ask(self, name: str, arguments: Any) -> HostCallResult | Awaitable[HostCallResult]:
        """Begin a host call, such as `callTool` or `state.get`; `arguments` is parsed JSON.

        A Settled is known at once. An awaitable may raise a Signal: that call settles in another
        entry, and the script is driven on as long as anything else in it can move.
        """
        ...

    def refuse(self, name: str, problem: str) -> HostCallResult:
        """Answer a host call that is refused for its arguments, which were not even read."""
        ...

    def answer(self, name: str, arguments: Any) -> HostCallResult:
        """Answer at once, such as `time.formatUnixTimestamp`; nothing is recorded."""
        ...

    def print(self, level: str, text: str) -> None:
        """Take a line of the console: level `info`, `warning` or `error`."""
        ...

    def warn(self, event_type: str, message: str) -> None:
        """Note what an author should know, such as `script.unhandled_rejection`."""
        ...

    def computed(self, ms: int) -> None:
        """Note how long the script computed in this entry, which is over."""
        ...
