"""`penstock webhooks`: the webhooks of a project, and the deliveries to them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from penstock.app.background.bodies import delivery_part, webhook_part
from penstock.app.settings import Settings
from penstock.cli.options import ProjectFolder
from penstock.cli.project import read_settings
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.cli.terminal.render import print_table, when
from penstock.core.clock import SystemClock
from penstock.core.text import count
from penstock.store.database import open_database
from penstock.store.logs.outbox import DeliveryStatus, Outbox
from penstock.store.projections import Page

Value = TypeVar("Value")
Status = Annotated[DeliveryStatus | None, typer.Option(help="Only deliveries with this status.")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="How many to list.")]
DeliveryId = Annotated[str, typer.Argument(metavar="ID", help="The delivery, dlv_….")]
WebhookId = Annotated[str, typer.Argument(metavar="ID", help="The webhook, wh_….")]


def list_webhooks(*, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """List the webhooks of penstock.toml, and which of them are paused."""
    settings, paused = _with_outbox(project, lambda outbox: outbox.paused())
    parts = [webhook_part(each.webhook, paused) for each in settings.webhooks]
    if as_json:
        print_json({"webhooks": parts})
        return
    rows = [
        (
            each["id"],
            each["origin"],
            ", ".join(each["events"]),
            f"{each['status']}: {each['reason']}" if "reason" in each else each["status"],
        )
        for each in parts
    ]
    print_table(("webhook", "to", "events", "status"), rows)
    note(count(len(rows), "webhook"))


def list_deliveries(
    *,
    status: Status = None,
    limit: Limit = 50,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """List deliveries, newest first."""
    _, (found, total) = _with_outbox(
        project, lambda outbox: outbox.list(status=status, page=Page(limit=limit))
    )
    if as_json:
        print_json({"deliveries": [delivery_part(each) for each in found], "total": total})
        return
    rows = [
        (
            each.delivery_id,
            each.event,
            each.task_id,
            each.status.value,
            str(each.attempts),
            when(each.at),
            each.problem or "",
        )
        for each in found
    ]
    print_table(("delivery", "event", "task", "status", "attempts", "at", "problem"), rows)
    note(f"{len(found)} of {total} deliveries")


def redeliver(delivery_id: DeliveryId, *, project: ProjectFolder = None) -> None:
    """Send a delivery now, also one that arrived or was given up. A running server sends it."""
    ids = {each.webhook.webhook_id for each in read_settings(project).webhooks}
    now = SystemClock().now()
    _with_outbox(project, lambda outbox: outbox.send_again(delivery_id, now=now, webhook_ids=ids))
    say(f"{delivery_id} is sent now, or when the next server runs")


def resume_webhook(webhook_id: WebhookId, *, project: ProjectFolder = None) -> None:
    """Send to a paused webhook again, beginning with what waited."""
    _, was_paused = _with_outbox(project, lambda outbox: outbox.resume(webhook_id))
    say(f"{webhook_id} {'receives deliveries again' if was_paused else 'was not paused'}")


def _with_outbox(
    project: ProjectFolder, work: Callable[[Outbox], Awaitable[Value]]
) -> tuple[Settings, Value]:
    """Run work on the outbox of a project; return its settings, too."""
    settings = read_settings(project)

    async def run() -> Value:
        database = await open_database(settings.database, synchronous=settings.synchronous)
        try:
            return await work(Outbox(database))
        finally:
            await database.close()

    return settings, asyncio.run(run())


COMMANDS = {
    "list": list_webhooks,
    "deliveries": list_deliveries,
    "redeliver": redeliver,
    "resume": resume_webhook,
}
