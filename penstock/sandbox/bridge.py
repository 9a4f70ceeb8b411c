"""The port between a script and its host: every host call goes through a Bridge."""

from collections.abc import Awaitable
from typing import Any, Protocol

from msgspec import Struct

from penstock.core.envelope import ErrorDetail


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a host call rejects."""

    name: str
    """The class of the error in the script: `FloError`, `TypeError`, `AbortError`, `RangeError`."""
    detail: ErrorDetail


class HostCallResult(Struct, frozen=True, kw_only=True):
    """The result of a host call: a value or a refusal."""

    value: Any = None
    """JSON, or bytes, which the script sees as a Uint8Array."""
    refusal: Refusal | None = None
    at_ms: int
    """The time that the script's clock shows from then on, in ms since 1970."""
    order: int | None = None
    """The position among the results recorded in earlier entries; None for a new result."""


class Bridge(Protocol):
    """The host's side of one entry of one script: all that the script can reach.

    Contract for the sandbox: it trusts nothing that the script sends, and passes each host call on
    as it comes. Recorded results are delivered one at a time, the lowest `order` first, with all
    jobs of the script run in between, and before any new result.
    """

    @property
    def seed(self) -> bytes:
        """32 bytes that seed the script's randomness: the same in every entry of one call."""
        ...

    @property
    def task(self) -> str:
        """The id of the task. Where processes are scarce, tasks take turns."""
        ...

    @property
    def begins_ms(self) -> int:
        """The time that the script's clock shows until the first delivery, in ms since 1970."""
        ...

    def ask(self, name: str, arguments: Any) -> HostCallResult | Awaitable[HostCallResult]:
        """Start a host call, such as `callTool` or `state.get`; `arguments` is parsed JSON.

        Returns the result if it is known already. The awaitable may raise a Suspend signal: that
        call settles in a later entry, and this entry continues while other calls can settle. Any
        other Signal ends the entry.
        """
        ...

    def refuse(self, name: str, problem: str) -> HostCallResult:
        """Refuse a host call for its arguments, which were not parsed."""
        ...

    def answer(self, name: str, arguments: Any) -> HostCallResult:
        """Answer a synchronous host call, such as `time.formatUnixTimestamp`. Not recorded."""
        ...

    def print(self, level: str, text: str) -> None:
        """Receive a line of the console. `level` is `info`, `warning` or `error`."""
        ...

    def warn(self, event_type: str, message: str) -> None:
        """Receive a warning for the author, such as `script.unhandled_rejection`."""
        ...

    def computed(self, ms: int) -> None:
        """Receive the computing time of this entry, after its end."""
        ...
