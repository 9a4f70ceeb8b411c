"""One address of a provider: requests on httpx2, their streams, and their failures as ModelErrors.

Guarantees one attempt per request, errors without the key (providers repeat it), bounded time for
connecting and for silence between bytes, and a connection that is reused after a complete reply and
closed after any other. A request is sent a second time only if a kept connection turns out to be
closed before the response starts. Redirects and proxies of the environment are not followed. Proof:
tests/models/wires/test_openai.py and tests/journeys/test_anthropic.py.
"""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Protocol

import httpx2
from msgspec import Struct

from penstock.core.errors import (
    CarryRefused,
    ConfigError,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from penstock.core.json_values.json_text import parse_json
from penstock.core.limits import KIB, Limits
from penstock.core.text import ERROR_CHARS, cut, one_line
from penstock.models.image_rules import MAX_SIDE
from penstock.models.model import ModelEvent, failure
from penstock.models.providers import CONNECT_SECONDS, ModelConfig
from penstock.models.wires.carries import refuses_carry
from penstock.models.wires.sse import (
    SHOWN_CHARS,
    error_code,
    error_text,
    is_unpaid,
    refused,
    without_key,
)

MAX_IDLE = 32
"""Maximum number of idle connections."""
ERROR_BYTES = 64 * KIB
"""Bytes to read of the body of an error."""

_CUT_OFF = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
_KEY = re.compile(r"[!-~]+")
_TAGS = re.compile(r"<(script|style|head)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
WITH_CARRY = {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND}
"""The statuses by which a provider may refuse what earlier replies carried."""
_PAGE_CHARS = 16 * KIB
TOO_MANY_PIXELS = "image_dimensions_too_large"
"""The code of an error about the size of an image."""
_REQUEST_IDS = ("request-id", "x-request-id")
_ID_CHARS = 80
_HINTS = {"true": True, "false": False}
_HEADERS = {
    "accept": "text/event-stream",
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "penstock",
}


class ReplyStream(Protocol):
    """Converts the bytes of one reply into events."""

    done: bool
    """The reply is complete: what follows is of no interest."""

    def feed(self, block: bytes) -> Sequence[ModelEvent]:
        """Return the events that are complete with these bytes. Raises ModelError."""
        ...

    def end(self) -> Sequence[ModelEvent]:
        """Return the last events. Raises ModelUnavailable for an incomplete reply."""
        ...


class Post(Struct, frozen=True):
    """One request: its body, and the headers that only it has."""

    body: bytes
    headers: Mapping[str, str] = {}
    has_carry: bool = False
    """The body repeats what earlier replies carried; the provider may refuse it for that alone."""


class Endpoint:
    """The address of one model."""

    def __init__(
        self,
        config: ModelConfig,
        limits: Limits,
        *,
        path: str,
        headers: Mapping[str, str],
    ) -> None:
        """Prepare for requests to `path` below the model's `base_url`. Raises ConfigError."""
        self._config = config
        self._limits = limits
        self._url = _url(config, path)
        self._headers = {**_HEADERS, **headers}
        self._client: httpx2.AsyncClient | None = None
        self._answered = False

    @property
    def host(self) -> str:
        """The host, with a port that is not the usual one."""
        return self._url.netloc.decode("ascii", "replace").rpartition("@")[2]

    async def events(self, post: Post, reply: ReplyStream) -> AsyncGenerator[ModelEvent, None]:
        """Send a request and yield the events of its reply. Raises ModelError."""
        try:
            async with self._response(post) as response:
                async with aclosing(_blocks(response, self._limits.reply_bytes)) as blocks:
                    async for block in blocks:
                        for event in reply.feed(block):
                            yield event
                        if reply.done:
                            break
                    await self._drain(blocks)
                for event in reply.end():
                    yield event
        except httpx2.RequestError as error:
            raise ModelUnavailable(self._unreachable(error)) from error
        except ModelError as error:
            raise self._named(error) from error.__cause__

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def _response(self, post: Post) -> AsyncIterator[httpx2.Response]:
        response = await self._send(post)
        try:
            if self._config.on_headers is not None:
                self._config.on_headers(response.headers)
            if response.status_code != HTTPStatus.OK:
                raise await self._refusal(response, has_carry=post.has_carry)
            yield response
        finally:
            await response.aclose()

    async def _send(self, post: Post) -> httpx2.Response:
        """Send the request; send it again if a kept connection turns out to be closed."""
        client = self._client = self._client or self._opened()
        request = self._request(client, post)
        try:
            response = await client.send(request, stream=True)
        except _CUT_OFF:
            if not self._answered:
                raise
            self._answered = False
            response = await client.send(self._request(client, post), stream=True)
        self._answered = True
        return response

    def _request(self, client: httpx2.AsyncClient, post: Post) -> httpx2.Request:
        return client.build_request("POST", self._url, content=post.body, headers=post.headers)

    def _opened(self) -> httpx2.AsyncClient:
        limits = self._limits
        return httpx2.AsyncClient(
            headers=self._headers,
            verify=self._url.scheme == "https",
            trust_env=False,
            timeout=httpx2.Timeout(
                limits.model_silence_seconds, connect=CONNECT_SECONDS, pool=None
            ),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE),
        )

    async def _drain(self, blocks: AsyncGenerator[bytes, None]) -> None:
        """Read the response to its end, so that its connection can be reused."""
        with suppress(TimeoutError, httpx2.RequestError):
            async with asyncio.timeout(self._limits.model_end_seconds):
                async for _ in blocks:
                    pass

    async def _refusal(self, response: httpx2.Response, *, has_carry: bool) -> ModelError:
        body = await self._error_body(response)
        status = response.status_code
        words, code = _words(body)
        advice = self._config.advice(status)
        text = f"answered {status}: {cut(words, ERROR_CHARS) or response.reason_phrase}"
        text += f"; {advice}" if advice else ""
        text += request_name(response.headers)
        if has_carry and status in WITH_CARRY and refuses_carry(f"{code} {words}"):
            return CarryRefused(text)
        if is_unpaid(code, words):
            return ModelRefused(text)
        error = failure(status, text, _retry_after(response))
        if isinstance(error, ModelRefused):
            error = refused(text, code)
        if TOO_MANY_PIXELS in body and (side := _max_side(body)) is not None:
            error.details = {MAX_SIDE: side}
        hint = _HINTS.get(response.headers.get("x-should-retry", "").lower())
        return hinted(error, hint=hint, retry_after=_retry_after(response))

    async def _error_body(self, response: httpx2.Response) -> str:
        body = b""
        with suppress(TimeoutError, httpx2.RequestError):
            async with asyncio.timeout(CONNECT_SECONDS):
                async with aclosing(response.aiter_bytes()) as blocks:
                    async for block in blocks:
                        body += block
                        if len(body) > ERROR_BYTES:
                            break
        return body[:ERROR_BYTES].decode("utf-8", "replace")

    def _unreachable(self, error: httpx2.RequestError) -> str:
        """Return the message for a failure below HTTP."""
        what = without_key(str(error), self._config.api_key) or type(error).__name__
        is_away = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
        how = "cannot be reached" if is_away else "broke off"
        return f"the model {self._config.name!r} at {_place(self._url)} {how}: {what}"

    def _named(self, error: ModelError) -> ModelError:
        """Return the error with the model's name and without the key."""
        message = without_key(str(error), self._config.api_key)
        text = f"the model {self._config.name!r} at {_place(self._url)}: {message}"
        if isinstance(error, ModelUnavailable):
            unavailable = ModelUnavailable(text, retry_after=error.retry_after)
            unavailable.is_throttled = error.is_throttled
            return unavailable
        named = type(error)(text)
        named.details = error.details
        return named


async def _blocks(response: httpx2.Response, most: int) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of the stream. A reply in plain JSON becomes a stream of one event."""
    kind = response.headers.get("content-type", "").lower()
    encoded = "content-encoding" in response.headers
    async with aclosing(response.aiter_bytes() if encoded else response.aiter_raw()) as blocks:
        if "json" not in kind and "html" not in kind:
            async for block in blocks:
                yield block
            return
        body = bytearray()
        async for block in blocks:
            body += block
            if len(body) > most:
                break
    if "json" in kind and _is_reply(body):
        yield b"data:" + body.replace(b"\n", b" ") + b"\n"
        return
    shown = cut(_words(body[:ERROR_BYTES].decode("utf-8", "replace"))[0], SHOWN_CHARS)
    raise ModelRefused(f"expected an event stream, found {kind}: {shown!r}; check base_url")


def _is_reply(body: bytearray) -> bool:
    try:
        reply = parse_json(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(reply, dict) and (
        "choices" in reply
        or "error" in reply
        or reply.get("type") == "message"
        or reply.get("object") == "response"
    )


def _words(body: str) -> tuple[str, str]:
    """Return the message and the code of an error in JSON, or the text of an error page."""
    try:
        error = parse_json(body)
        return error_text(error), error_code(error)
    except (ValueError, RecursionError):
        # A page of tags that do not end costs the square of its length.
        return one_line(_TAGS.sub(" ", body[:_PAGE_CHARS])), ""


def _max_side(body: str) -> int | None:
    """Return the pixels of a side that the provider accepts, from its refusal of an image."""
    try:
        answer = parse_json(body)
    except (ValueError, RecursionError):
        return None
    match answer:
        case {"error": {"details": {"error_code": code, "max_side_length_pixels": int(side)}}}:
            return side if code == TOO_MANY_PIXELS and side > 0 else None
        case _:
            return None


def _retry_after(response: httpx2.Response) -> float | None:
    """Return how many seconds the provider asks to wait; None if it does not say."""
    seconds = _asked_seconds(response.headers)
    return max(seconds, 0.0) if seconds is not None and math.isfinite(seconds) else None


def _asked_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, which may be a number or a date."""
    retry_after, now = headers.get("retry-after", ""), headers.get("date", "")
    try:
        if "retry-after-ms" in headers:
            return float(headers["retry-after-ms"]) / 1000
        if retry_after.replace(".", "", 1).isdigit():
            return float(retry_after)
        # Relative to the server's own clock, which may differ from ours.
        return (parsedate_to_datetime(retry_after) - parsedate_to_datetime(now)).total_seconds()
    except (OverflowError, TypeError, ValueError):
        return None


def request_name(headers: Mapping[str, str]) -> str:
    """Return the provider's id of a request, which its support asks for; or an empty text."""
    names = (headers.get(name, "") for name in _REQUEST_IDS)
    return next((f" (request {cut(name, _ID_CHARS)})" for name in names if name), "")


def hinted(error: ModelError, *, hint: bool | None, retry_after: float | None) -> ModelError:
    """Return the error as the provider's `x-should-retry` has it, which wins over the status."""
    is_retried = isinstance(error, ModelUnavailable)
    if hint is None or hint is is_retried:
        return error
    text = str(error)
    return ModelUnavailable(text, retry_after=retry_after) if hint else ModelRefused(text)


def _url(config: ModelConfig, ending: str) -> httpx2.URL:
    try:
        url = httpx2.URL(config.base_url or "")
    except httpx2.InvalidURL as error:
        raise ConfigError(f"base_url of the model {config.name!r} is not a URL: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigError(
            f"base_url of the model {config.name!r} must be an http or https URL such as "
            f"http://127.0.0.1:8080/v1, found {config.base_url!r}"
        )
    path = url.path.rstrip("/")
    return url if path.endswith(ending) else url.copy_with(path=path + ending)


def bearer(config: ModelConfig) -> dict[str, str]:
    """Return the headers of the key and the organization, if there are any. Raises ConfigError."""
    named = {"openai-organization": config.organization} if config.organization else {}
    return {"authorization": f"Bearer {key}", **named} if (key := usable_key(config)) else named


def usable_key(config: ModelConfig) -> str:
    """Return the model's key, or an empty text. Raises ConfigError if no header can hold it."""
    key = config.api_key or ""
    if key and not _KEY.fullmatch(key):
        raise ConfigError(
            f"the key of the model {config.name!r} contains characters that are not allowed "
            f"in a header, such as a line break or a space: {config.key_advice}"
        )
    return key


def _place(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace').rpartition('@')[2]}"
