"""Webhooks: the receivers, and the deliveries that wait, arrived or were given up."""

from typing import Annotated

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from penstock.app.background.bodies import delivery_part, webhook_part
from penstock.core.errors import NotFound
from penstock.core.profile import MANAGE
from penstock.server.context import allowed, context_of
from penstock.server.openapi import answers
from penstock.server.parameters import PageQuery, page_of, sorting
from penstock.server.problem import Json
from penstock.server.routing import Router
from penstock.store.logs.outbox import DeliveryStatus

router = Router(prefix="/api/webhooks", tags=["webhooks"])

DELIVERY_SORTS = ("at",)
"""The orders of deliveries."""


class DeliveryQuery(PageQuery):
    """The query of a list of deliveries."""

    sort: str = sorting(DELIVERY_SORTS)
    status: DeliveryStatus | None = None
    webhook_id: str | None = Field(default=None, alias="webhookId")


@router.get("", responses=answers("Webhooks"), response_class=Json)
async def list_webhooks(request: Request) -> Response:
    """Return the webhooks of penstock.toml, without the paths of their URLs."""
    allowed(request, MANAGE)
    context = context_of(request)
    paused = await context.kept.outbox.paused()
    return Json({"webhooks": [webhook_part(each, paused) for each in context.storage.webhooks]})


@router.post("/{webhook_id}/resume", status_code=204, responses=answers(None, 204))
async def resume_webhook(webhook_id: str, request: Request) -> Response:
    """Send to a paused webhook again, beginning with what waited."""
    allowed(request, MANAGE)
    context = context_of(request)
    if webhook_id not in {each.webhook_id for each in context.storage.webhooks}:
        raise NotFound(f"there is no webhook {webhook_id!r} in penstock.toml")
    await context.kept.outbox.resume(webhook_id)
    return Response(status_code=204)


@router.get("/deliveries", responses=answers("Deliveries"), response_class=Json)
async def list_deliveries(request: Request, query: Annotated[DeliveryQuery, Query()]) -> Response:
    """Return deliveries, newest first; `sort` is at."""
    allowed(request, MANAGE)
    query.sorted_by(DELIVERY_SORTS)
    outbox, page = context_of(request).kept.outbox, query.page
    found, total = await outbox.list(status=query.status, webhook_id=query.webhook_id, page=page)
    return page_of("deliveries", [delivery_part(each) for each in found], page, total)


@router.post(
    "/deliveries/{delivery_id}/redeliver",
    status_code=202,
    responses=answers("Delivery", 202),
    response_class=Json,
)
async def redeliver(delivery_id: str, request: Request) -> Response:
    """Send a delivery now, also one that arrived or was given up; its id stays the same."""
    allowed(request, MANAGE)
    context = context_of(request)
    ids = {each.webhook_id for each in context.storage.webhooks}
    now = context.world.clock.now()
    delivery = await context.kept.outbox.send_again(delivery_id, now=now, webhook_ids=ids)
    return Json(delivery_part(delivery), 202)
