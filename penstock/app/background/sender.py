"""Sends the deliveries of webhooks: signed, in order for each task, and again until they arrive.

Guarantees: every delivery is sent at least once, or ends as dead with a reason that operators can
read; a delivery is never sent before its event is on disk; the secret and the URL's query are in no
message.

How it works. One task of the process claims what is due and starts an attempt for each delivery,
at most `AT_ONCE` for one webhook. `Outbox.claim` returns only the oldest waiting delivery of a
task, so the next one follows when that one arrived or is dead. An attempt that fails is due again
after a pause that doubles up to an hour; after a day the delivery is dead. Commits of this process
wake the sender; deliveries of other processes, and retries, are found by looking every second while
a delivery waits.

Relies on: claims last longer than an attempt, so that two processes send the same delivery only if
one of them died. Every request passes the egress guard.
Shown by tests/app/background/test_sender.py.
"""

import asyncio
import logging
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from penstock.app.background.bodies import Describer
from penstock.app.background.signature import HEADER, SECRETS, sign
from penstock.core.call_errors import EgressDenied, UpstreamUnavailable, VaultNotFound
from penstock.core.clock import Clock, Moment
from penstock.core.errors import ConfigError, PenstockError, StoreClosed, StoreCorrupt, StoreError
from penstock.core.events.events import Record
from penstock.core.json_values.json_text import compact
from penstock.resources.egress import Egress, EgressCaller, Redirect, Request
from penstock.resources.hosts import read_patterns
from penstock.resources.vault import Vault
from penstock.store.logs.outbox import ANNOUNCED, Delivery, DeliveryStatus, Outbox
from penstock.store.logs.webhook import Webhook

log = logging.getLogger(__name__)

AT_ONCE = 8
"""Attempts at once for one webhook."""
ATTEMPT_SECONDS = 10.0
"""How long a receiver may take."""
CLAIM_SECONDS = 30
"""How long a claim holds: an attempt, and time to write its outcome."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 3600.0
SPREAD = 0.2
"""The share by which a pause is longer or shorter, so that retries do not come together."""
GIVE_UP_SECONDS = 24 * 3600
"""How long a delivery is tried: after its event, or after a person had it sent again."""
LOOK_SECONDS = 1.0
"""How often the outbox is read while something waits in it."""
_GOOD = range(200, 300)
_GONE = 410
_PROBLEM_LETTERS = 300


class SenderParts(Struct, frozen=True, kw_only=True):
    """The parts of the runtime that sending needs."""

    outbox: Outbox
    describer: Describer
    egress: Egress
    vault: Vault
    clock: Clock
    idle_seconds: float
    """How often the outbox is read while nothing waits: another process may add to it."""


class Outcome(Struct, frozen=True):
    """The outcome of one attempt."""

    problem: str | None = None
    """None if the receiver took the delivery."""
    is_final: bool = False
    """Whether another attempt is useless."""
    pause_seconds: float | None = None
    """The pause that the receiver asked for."""
    is_gone: bool = False
    """Whether the receiver wants no more deliveries at all."""


class WebhookSender:
    """Sends deliveries in the background, from `open` to `close`."""

    def __init__(self, webhooks: Sequence[Webhook], parts: SenderParts) -> None:
        self._webhooks = {each.webhook_id: each for each in webhooks}
        self._parts = parts
        self._outbox = parts.outbox
        self._clock = parts.clock
        self._news = asyncio.Event()
        self._running: dict[asyncio.Task[None], str] = {}
        """The attempts, with the webhook of each."""
        self._loop: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raise ConfigError if a webhook has no secret in the vault."""
        for webhook in self._webhooks.values():
            try:
                await self._parts.vault.get(SECRETS, webhook.vault_key)
            except VaultNotFound:
                key = webhook.vault_key
                raise ConfigError(
                    f"the webhook to {_host(webhook)} has no secret to sign with: set one with "
                    f"`penstock vault set {SECRETS} {key}`, or remove the webhook from "
                    "penstock.toml"
                ) from None

    def hear(self, records: Sequence[Record]) -> None:
        """Look at the outbox if some of the committed events become deliveries."""
        if any(type(each.event) in ANNOUNCED for each in records):
            self._news.set()

    def open(self) -> None:
        """Start sending."""
        self._loop = asyncio.create_task(self._send_all())

    async def close(self) -> None:
        """Stop; an attempt that is cut is made again when its claim has run out."""
        tasks = [*filter(None, [self._loop]), *self._running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_all(self) -> None:
        while True:
            self._news.clear()
            try:
                is_waiting = await self._start_due()
            except StoreClosed:
                return
            except StoreError as error:
                is_waiting = True
                log.warning("webhooks could not be read; the next look tries again: %s", error)
            await self._wait(LOOK_SECONDS if is_waiting else self._parts.idle_seconds)

    async def _start_due(self) -> bool:
        """Start what is due, as far as there is room. Return whether anything waits."""
        for webhook_id, webhook in self._webhooks.items():
            room = AT_ONCE - sum(each == webhook_id for each in self._running.values())
            if room > 0:
                now = self._clock.now()
                until = Moment(now + 1000 * CLAIM_SECONDS)
                due = await self._outbox.claim(webhook_id, now=now, until=until, limit=room)
                for delivery in due:
                    attempt = asyncio.create_task(self._deliver(delivery, webhook, until))
                    self._running[attempt] = webhook_id
                    attempt.add_done_callback(self._ended)
        return await self._outbox.are_waiting(self._webhooks)

    def _ended(self, attempt: "asyncio.Task[None]") -> None:
        del self._running[attempt]
        self._news.set()  # there is room again, and the next delivery of the task may be due
        if not attempt.cancelled() and (error := attempt.exception()) is not None:
            log.error("a delivery broke off; it is sent again: %s", error, exc_info=error)

    async def _wait(self, seconds: float) -> None:
        """Wait for news, at most so long."""
        pause = asyncio.create_task(self._clock.sleep(seconds))
        news = asyncio.create_task(self._news.wait())
        try:
            await asyncio.wait([pause, news], return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            news.cancel()
            await asyncio.gather(pause, news, return_exceptions=True)

    async def _deliver(self, delivery: Delivery, webhook: Webhook, until: Moment) -> None:
        """Make one attempt and write its outcome."""
        outcome = await self._attempt(delivery, webhook)
        if outcome.is_gone:
            reason = "the receiver answered 410 Gone"
            await self._outbox.pause(webhook.webhook_id, at=self._clock.now(), reason=reason)
            log.warning("the webhook to %s is paused: %s", _host(webhook), reason)
        after = self._after(delivery, outcome)
        if after.status is DeliveryStatus.DEAD:
            message = "the delivery %s to %s is given up: %s"
            log.warning(message, delivery.delivery_id, _host(webhook), outcome.problem)
        await self._outbox.settle(after, until=until)

    def _after(self, delivery: Delivery, outcome: Outcome) -> Delivery:
        """Return the delivery after an attempt."""
        now, attempts = self._clock.now(), delivery.attempts + 1
        after = replace(delivery, attempts=attempts, problem=outcome.problem)
        if outcome.problem is None:
            return replace(after, status=DeliveryStatus.DELIVERED, ended_at=now)
        since = delivery.at if delivery.tried_since is None else delivery.tried_since
        if outcome.is_final or now - since >= 1000 * GIVE_UP_SECONDS:
            return replace(after, status=DeliveryStatus.DEAD, ended_at=now)
        wanted = outcome.pause_seconds
        pause = pause_of(delivery.delivery_id, attempts) if wanted is None else wanted
        return replace(after, next_at=Moment(now + round(1000 * pause)))

    async def _attempt(self, delivery: Delivery, webhook: Webhook) -> Outcome:
        try:
            body = await self._parts.describer.describe(delivery, webhook)
            if body is None:
                return Outcome("its event was erased", is_final=True)
            secret = await self._parts.vault.get(SECRETS, webhook.vault_key)
            return await self._post(compact(body).encode(), delivery, webhook, secret)
        except (EgressDenied, StoreCorrupt) as error:
            return Outcome(_cut(error), is_final=True)
        except (PenstockError, UpstreamUnavailable) as error:
            return Outcome(_cut(error))

    async def _post(
        self, body: bytes, delivery: Delivery, webhook: Webhook, secret: str
    ) -> Outcome:
        url = urlsplit(webhook.url)
        request = Request(
            url=webhook.url,
            method="POST",
            headers=(
                ("content-type", "application/json"),
                ("x-penstock-delivery", delivery.delivery_id),
                ("x-penstock-event", delivery.event),
                (HEADER, sign(body, secret, self._clock.now() // 1000)),
            ),
            body=body,
            redirect=Redirect.MANUAL,
            seconds=ATTEMPT_SECONDS,
            max_bytes=0,
        )
        patterns = read_patterns([f"{url.scheme}://{url.netloc}"])
        caller = EgressCaller(tool_id=f"webhook {_host(webhook)}", egress=tuple(patterns))
        answer = await self._parts.egress.fetch(request, caller)
        if answer.status in _GOOD:
            return Outcome()
        pause = _seconds(answer.headers.get("retry-after"))
        problem = f"the receiver answered with the status {answer.status}"
        return Outcome(problem, pause_seconds=pause, is_gone=answer.status == _GONE)


def pause_of(delivery_id: str, attempts: int) -> float:
    """Return the seconds before the next attempt: doubled each time, and spread by the id."""
    pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(attempts - 1, 30), LONGEST_PAUSE_SECONDS)
    drawn = int.from_bytes(sha256(f"{delivery_id}/{attempts}".encode()).digest()[:4]) / 2**32
    return pause * (1 - SPREAD + 2 * SPREAD * drawn)


def _seconds(retry_after: str | None) -> float | None:
    """Return the pause of a `Retry-After` in seconds, at most an hour; dates are not read."""
    text = (retry_after or "").strip()
    is_number = text.isascii() and text.isdigit()
    return min(float(text[:10]), LONGEST_PAUSE_SECONDS) if is_number else None


def _host(webhook: Webhook) -> str:
    """Return the host of a webhook for messages: the rest of a URL may be a secret."""
    return urlsplit(webhook.url).hostname or "?"


def _cut(error: Exception) -> str:
    return str(error)[:_PROBLEM_LETTERS]
