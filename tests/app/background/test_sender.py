"""Deliveries: signed, in order for a task, sent again until they arrive, and given up."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.app.background.bodies import Describer
from penstock.app.background.sender import (
    AT_ONCE,
    GIVE_UP_SECONDS,
    LONGEST_PAUSE_SECONDS,
    SenderParts,
    WebhookSender,
    pause_of,
)
from penstock.app.background.signature import SECRETS, verify_webhook
from penstock.core.call_errors import EgressDenied, UpstreamUnavailable
from penstock.core.errors import ConfigError
from penstock.core.ids import TaskId
from penstock.resources.egress import EgressCaller, HttpResponse, Redirect, Request
from penstock.store.blobs import open_blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.outbox import Delivery, DeliveryStatus, Outbox
from penstock.store.logs.sql_log import SqlLog
from penstock.store.logs.webhook import Webhook
from penstock.store.projections import Page
from penstock.store.sql_projections import SqlProjections
from penstock.store.tables import events
from penstock.testing.clock import START, FakeClock
from penstock.testing.resources import MemoryVault
from tests.kit.log_entries import CHAT, ONE, asked, ended, held, message, started
from tests.kit.scripted_egress import Answers, answered

TAKEN = answered(b"", 204)
HOOK = Webhook(
    url="https://hooks.test/in?token=s3cret",
    events=("task.ended", "question.asked"),
    vault_key="k",
)


class Heard(Answers):
    """A receiver that reports each request that it has answered."""

    def __init__(self, *answers: HttpResponse | Exception) -> None:
        super().__init__(*answers)
        self.requests: asyncio.Queue[Request] = asyncio.Queue()
        self.hangs = False

    async def fetch(self, request: Request, asker: EgressCaller) -> HttpResponse:
        self.requests.put_nowait(request)
        if self.hangs:
            await asyncio.Event().wait()
        return await super().fetch(request, asker)


class World:
    """A log with one webhook, and its sender."""

    def __init__(self, database: Database, receiver: Heard, webhook: Webhook) -> None:
        self.clock = FakeClock()
        self.database = database
        self.receiver = receiver
        blobs = open_blobs("memory:///", self.clock)
        self.log = SqlLog(database, blobs, self.clock, webhooks=[webhook])
        self.outbox = Outbox(database)
        self.vault = MemoryVault(self.clock)
        projections = SqlProjections(database, blobs)
        self.describer = Describer(self.log, projections, "https://me.test/")
        parts = SenderParts(
            outbox=self.outbox,
            describer=self.describer,
            egress=receiver,
            vault=self.vault,
            clock=self.clock,
            idle_seconds=3600,
        )
        self.sender = WebhookSender([webhook], parts)
        self.log.listen(self.sender.hear)

    async def happen(self) -> None:
        """Write a question and the end of its task."""
        lease = await held(self.log)
        await self.log.append(lease, [started(), asked()])
        self.clock.advance(1)
        await self.log.append(lease, [ended()])

    async def many(self, count: int) -> None:
        """Write the ends of so many tasks."""
        lease = await held(self.log)
        await self.log.append(lease, [ended()])
        for number in range(1, count):
            task_id = TaskId(f"task_m{number}")
            await self.log.send(CHAT, [message(task_id)])
            await self.log.append(lease, [ended(task_id)])

    async def sent(self) -> Request:
        """Return the next request."""
        return await asyncio.wait_for(self.receiver.requests.get(), 5)

    async def listed(
        self, is_reached: Callable[[Sequence[Delivery]], bool], *, step: float = 0
    ) -> list[Delivery]:
        """Return the deliveries, oldest first, once they are as expected; time goes by in steps."""
        async with asyncio.timeout(5):
            while True:
                found, _ = await self.outbox.list(page=Page(is_descending=False))
                if is_reached(found):
                    return list(found)
                self.clock.advance(step)


@asynccontextmanager
async def world(*answers: HttpResponse | Exception, hook: Webhook = HOOK) -> AsyncIterator[World]:
    """Open a sender whose receiver answers so."""
    database = await open_database("sqlite://")
    made = World(database, Heard(*answers), hook)
    await made.vault.set(SECRETS, "k", "a secret")
    made.sender.open()
    try:
        yield made
    finally:
        await made.sender.close()
        await database.close()


def body_of(request: Request) -> Any:
    assert isinstance(request.body, bytes)
    return json.loads(request.body)


def have(*statuses: str) -> Callable[[Sequence[Delivery]], bool]:
    return lambda found: [each.status.value for each in found] == list(statuses)


async def test_events_are_sent_in_the_order_of_their_task() -> None:
    async with world(TAKEN, TAKEN) as here:
        await here.happen()
        question, end = await here.sent(), await here.sent()
        await here.listed(have("delivered", "delivered"))
    about = {"id": ONE, "kind": "message", "agentId": "assistant", "conversationId": CHAT}
    first, second = body_of(question), body_of(end)
    assert (first["type"], second["type"]) == ("question.asked", "task.ended")
    assert first["question"] == {
        "id": "q_1",
        "kind": "ask_user",
        "text": "Why?",
        "path": ["ask_user"],
        "url": "https://me.test/api/questions/q_1",
    }
    assert first["task"].items() >= about.items()
    assert second["task"].items() >= (about | {"status": "succeeded"}).items()
    assert "content" not in second["task"]
    assert second["at"] == "2026-11-21T09:00:01.000Z"


async def test_a_request_is_signed_and_follows_no_redirect() -> None:
    async with world(TAKEN, TAKEN) as here:
        await here.happen()
        request = await here.sent()
        (delivery, _) = await here.listed(have("delivered", "delivered"))
    headers = dict(request.headers)
    signature = headers["x-penstock-signature"]
    assert isinstance(request.body, bytes)
    assert verify_webhook(request.body, signature, "a secret", now=lambda: START / 1000)
    assert headers["x-penstock-delivery"] == delivery.delivery_id
    assert headers["x-penstock-event"] == body_of(request)["type"]
    assert body_of(request)["id"] == delivery.event_id
    assert (request.redirect, request.max_bytes, request.seconds) == (Redirect.MANUAL, 0, 10)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (answered(b"", 500), "the receiver answered with the status 500"),
        (
            answered(b"", 301, location="https://x.test"),
            "the receiver answered with the status 301",
        ),
        (UpstreamUnavailable("hooks.test did not answer"), "hooks.test did not answer"),
    ],
)
async def test_a_failed_attempt_is_made_again_after_a_pause(
    answer: HttpResponse | Exception, problem: str
) -> None:
    async with world(answer, TAKEN, TAKEN) as here:
        await here.happen()
        first = await here.sent()
        (waiting, behind) = await here.listed(lambda found: found[0].attempts == 1)
        assert (waiting.status, waiting.problem) == (DeliveryStatus.PENDING, problem)
        assert behind.attempts == 0
        await here.listed(have("delivered", "delivered"), step=1)
        again = await here.sent()
        assert body_of(first) == body_of(again)


async def test_a_receiver_can_ask_for_a_longer_pause() -> None:
    """Spec: "`Retry-After` honoured up to 1 h"."""
    async with world(answered(b"", 429, retry_after="99999")) as here:
        await here.happen()
        (waiting, _) = await here.listed(lambda found: found[0].attempts == 1)
        assert waiting.next_at - here.clock.now() <= 1000 * LONGEST_PAUSE_SECONDS
        assert waiting.next_at - here.clock.now() > 1000 * (LONGEST_PAUSE_SECONDS - 5)


async def test_a_delivery_dies_after_a_day() -> None:
    """Spec: "for 24 h; then dead"."""
    async with world(answered(b"", 500), answered(b"", 500), TAKEN) as here:
        await here.happen()
        await here.listed(lambda found: found[0].attempts == 1)
        here.clock.advance(GIVE_UP_SECONDS)
        (dead, behind) = await here.listed(have("dead", "delivered"), step=1)
        assert (dead.attempts, behind.attempts) == (2, 1)
        assert dead.problem == "the receiver answered with the status 500"
        assert here.clock.now() - START >= 1000 * GIVE_UP_SECONDS


async def test_a_delivery_that_is_sent_again_has_a_day_of_its_own() -> None:
    """Its event is older than a day, and the receiver fails once more."""
    failed = answered(b"", 500)
    async with world(failed, failed, TAKEN, failed, TAKEN) as here:
        await here.happen()
        await here.listed(lambda found: found[0].attempts == 1)
        here.clock.advance(GIVE_UP_SECONDS)
        (dead, _) = await here.listed(have("dead", "delivered"), step=1)
        now, ids = here.clock.now(), [HOOK.webhook_id]
        await here.outbox.send_again(dead.delivery_id, now=now, webhook_ids=ids)
        (again, _) = await here.listed(have("delivered", "delivered"), step=60)
        assert again.attempts == 2


async def test_what_the_egress_guard_refuses_is_dead_at_once() -> None:
    """Spec: "`EGRESS_DENIED` is dead at once"."""
    denied = EgressDenied("it has an address that is not public")
    async with world(denied, denied) as here:
        await here.happen()
        (dead, _) = await here.listed(have("dead", "dead"))
        assert (dead.attempts, dead.problem) == (1, str(denied))


async def test_a_damaged_event_is_given_up_and_delays_no_other() -> None:
    async with world(TAKEN) as here:
        await here.sender.close()
        await here.happen()
        damage = events.update().where(events.c.kind == "question_asked").values(body="{")
        await here.database.write(lambda each: each.execute(damage))
        here.sender.open()
        (dead, _) = await here.listed(have("dead", "delivered"), step=1)
        assert dead.problem is not None
        assert "cannot be read" in dead.problem


async def test_a_receiver_that_is_gone_pauses_its_webhook() -> None:
    """Spec: "410: the webhook is paused"."""
    async with world(answered(b"", 410), TAKEN, TAKEN) as here:
        await here.happen()
        await here.listed(lambda found: found[0].attempts == 1)
        assert await here.outbox.paused() == {HOOK.webhook_id: "the receiver answered 410 Gone"}
        assert await here.outbox.resume(HOOK.webhook_id)
        await here.listed(have("delivered", "delivered"), step=100)


async def test_eight_attempts_run_at_once() -> None:
    """Spec: "8 at once per webhook"."""
    async with world(hook=HOOK) as here:
        here.receiver.hangs = True
        await here.many(12)
        for _ in range(AT_ONCE):
            await here.sent()
        assert here.receiver.requests.empty()


async def test_a_webhook_without_a_secret_stops_the_start() -> None:
    """Spec: "missing secret stops the start with a diagnostic"."""
    async with world() as here:
        await here.sender.check()
        await here.vault.delete(SECRETS, "k")
        with pytest.raises(ConfigError, match=r"hooks\.test .*vault set shared:webhooks k"):
            await here.sender.check()


def test_pauses_double_up_to_an_hour_and_differ_between_deliveries() -> None:
    """Spec: "1 s, doubled to 1 h, ±20 %"."""
    pauses = [pause_of("dlv_1", attempt) for attempt in range(1, 30)]
    usual = [min(2.0**attempt, 3600) for attempt in range(29)]
    assert all(0.8 <= pause / each <= 1.2 for pause, each in zip(pauses, usual, strict=True))
    assert len({pause_of(f"dlv_{each}", 1) for each in range(9)}) > 5
