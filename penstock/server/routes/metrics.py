"""Metrics of an agent's tools."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import AfterValidator, BaseModel, Field
from starlette.responses import Response

from penstock.agents.offer import definition
from penstock.core.clock import Moment, to_iso
from penstock.core.json_values.json_text import compact
from penstock.core.profile import READ
from penstock.core.text import cut
from penstock.server.context import ServerContext, allowed, context_of
from penstock.server.requests.problem import Json
from penstock.server.routes.router import Router
from penstock.server.schemas.openapi import answers
from penstock.store.metrics import MetricsRange, tokens

router = Router(prefix="/api/agents/{agent_id}/tools", tags=["tools"])

USUAL = timedelta(days=7)
_LAST = 253_402_300_799_000
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _moment(text: str) -> Moment:
    """Parse a time with its zone."""
    if not _TIME.fullmatch(text):
        raise ValueError(f"must be a time such as 2026-11-21T09:00:00Z, found {cut(text, 40)!r}")
    moment = int(datetime.fromisoformat(text).timestamp() * 1000)
    return Moment(min(max(moment, 0), _LAST))


Time = Annotated[str, AfterValidator(_moment), Field(json_schema_extra={"format": "date-time"})]


class MetricsQuery(BaseModel):
    """The query of metrics: a period, and one tool."""

    since: Time | None = Field(default=None, alias="from")
    until: Time | None = Field(default=None, alias="to")
    tool: str | None = None


@router.get("/metrics", responses=answers("Metrics"), response_class=Json)
async def read_metrics(
    agent_id: str, request: Request, query: Annotated[MetricsQuery, Query()]
) -> Response:
    """Return calls, successes, times and tokens of each tool; by default of the last 7 days."""
    context, _ = context_of(request), allowed(request, READ)
    now = context.runtime.parts.clock.now()
    until = Moment(now + 1 if query.until is None else int(query.until))
    usual = int(USUAL.total_seconds() * 1000)
    since = Moment(max(until - usual, 0) if query.since is None else int(query.since))
    definitions = _definitions(context, agent_id)
    span = MetricsRange(agent=agent_id, since=since, until=until)
    found = await context.kept.metrics.of_tools(span, definitions)
    if not found:
        context.runtime.parts.agents.get(agent_id)
    shown = [
        tally.to_wire(tool_id)
        for tool_id, tally in found.items()
        if query.tool is None or query.tool == tool_id
    ]
    return Json({"metrics": shown, "meta": {"from": to_iso(since), "to": to_iso(until)}})


def _definitions(context: ServerContext, agent_id: str) -> dict[str, int]:
    """Return the tokens of each tool's definition; none for an agent that does not exist."""
    parts = context.runtime.parts
    agent, found = parts.agents.look_up(agent_id), dict[str, int]()
    if agent is None:
        return found
    for tool in parts.invoker_of(agent).registry:
        shown = definition(tool)
        parameters: dict[str, Any] = dict(shown.parameters)
        text = f"{shown.name}{shown.description}{compact(parameters)}"
        found[tool.spec.tool_id] = tokens(text)
    return found
