"""Server-sent events of providers: their lines, their JSON, and the errors inside them.

Guarantees that the size of a reply is bounded by `Limits.reply_bytes`, that the cost of a block
depends on its own size, also for a line of megabytes in many pieces, and that bytes which are not
JSON are a ModelUnavailable, which may be retried. Proof: tests/models/wires/test_sse.py.
"""

import json
import re
from typing import Any

from penstock.core.errors import ContextTooLarge, ModelError, ModelRefused, ModelUnavailable
from penstock.core.json_values.json_text import parse_json
from penstock.core.text import cut
from penstock.models.structured.fitted import SCHEMA_REFUSED

SHOWN_CHARS = 200
TOO_LARGE = "the model's reply is longer than Limits.reply_bytes allows"
_TOO_LONG = re.compile(
    r"context_length_exceeded|prompt is too long|maximum context length|available context size"
)
"""Words of Anthropic, OpenAI, vLLM and llama.cpp for a conversation that is too long."""
_TOO_COMPLEX = re.compile(
    r"schema is too complex|compiled grammar is too large|too many states for serving"
    r"|invalid schema for response_format|json schema conversion failed|failed to parse grammar",
    re.IGNORECASE,
)
"""Words of Anthropic, Google, OpenAI and llama.cpp for a schema that they do not enforce."""
MIN_KEY_LENGTH = 8
"""A shorter key is a placeholder; replacing it would damage the message."""
_UNPAID = {"insufficient_quota", "billing_error"}
_UNPAID_WORDS = ("credit balance is too low", "exceeded your current quota")


class ServerEvents:
    """Splits the bytes of a response into the payloads of its server-sent events."""

    __slots__ = ("_left", "_line", "_lines")

    def __init__(self, reply_bytes: int) -> None:
        self._left = reply_bytes
        self._line: list[bytes] = []
        self._lines: list[bytes] = []

    def feed(self, block: bytes) -> list[bytes]:
        """Return the payloads that are complete with these bytes. Raises ModelRefused."""
        self._left -= len(block)
        if self._left < 0:
            raise ModelRefused(TOO_LARGE)
        # Kept in pieces: joining at each block would be quadratic for a line of megabytes.
        if b"\n" not in block:
            self._line.append(block)
            return []
        lines = b"".join([*self._line, block]).split(b"\n") if self._line else block.split(b"\n")
        self._line = [last] if (last := lines.pop()) else []
        payloads: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._lines.append(line[5:])
            elif self._lines and not line.strip():
                self._flush(payloads)
        return payloads

    def end(self) -> list[bytes]:
        """Return the payload of an event without a blank line after it."""
        payloads: list[bytes] = []
        line = b"".join(self._line)
        if line.startswith(b"data:"):
            self._lines.append(line[5:])
        if self._lines:
            self._flush(payloads)
        return payloads

    def _flush(self, payloads: list[bytes]) -> None:
        text = self._lines[0] if len(self._lines) == 1 else b"\n".join(self._lines)
        self._lines = []
        if text := text.strip():
            payloads.append(text)


def parsed(text: str | bytes) -> Any:
    """Return the value of a payload. Raises ModelUnavailable."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        words = text if isinstance(text, str) else text.decode("utf-8", "replace")
        shown = cut(words, SHOWN_CHARS)
        raise ModelUnavailable(f"the model sent a piece that is not JSON: {shown!r}") from None


def error_text(error: Any) -> str:
    """Return the message of a provider's error, whatever its shape."""
    match error:
        case {"message": str(text)} | {"error": str(text)} | {"detail": str(text)} | str(text):
            return text
        case {"error": inner}:
            return error_text(inner)
        case _:
            return json.dumps(error)


def error_code(error: Any) -> str:
    """Return the code of a provider's error, or else its type; empty if it has none."""
    match error:
        case {"error": dict(inner)}:
            return error_code(inner)
        case {"code": str(code)} if code:
            return code
        case {"type": str(kind)}:
            return kind
        case _:
            return ""


def refused(text: str, code: str = "") -> ModelError:
    """Return the error for a request that a second attempt would not help."""
    if _TOO_LONG.search(f"{code} {text}"):
        return ContextTooLarge(text)
    error = ModelRefused(text)
    if _TOO_COMPLEX.search(text):
        error.details = {SCHEMA_REFUSED: True}
    return error


def is_unpaid(code: str, text: str) -> bool:
    """Whether an error says that a quota or credit is used up, with the status 429 or any other."""
    return code in _UNPAID or any(words in text for words in _UNPAID_WORDS)


def without_key(text: str, key: str | None) -> str:
    """Return the text with the key replaced: some providers repeat it in their errors."""
    return text.replace(key, "[key]") if key and len(key) >= MIN_KEY_LENGTH else text


def text_of(value: Any) -> str:
    """Return a text; an empty one for any other value."""
    return value if isinstance(value, str) else ""


def count_of(values: Any, *names: str) -> int:
    """Return the count at a path of names; 0 if there is none."""
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    return values if type(values) is int and values > 0 else 0
