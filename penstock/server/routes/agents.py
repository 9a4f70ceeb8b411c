"""The agents of the project, their settings, the metrics of their tools, and the permissions."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Query, Request
from msgspec.structs import asdict
from pydantic import AfterValidator, BaseModel, Field
from starlette.responses import Response

from penstock.agents.agent import DEFAULTS, Agent, ChatSettings
from penstock.agents.tool_offer import definition
from penstock.app.runtime_parts import ChatParts
from penstock.core.clock import Moment, to_iso
from penstock.core.json_values.json_text import compact
from penstock.core.profile import READ
from penstock.core.text import cut
from penstock.manifest.permissions import PermissionGroup
from penstock.server.context import allowed, context_of
from penstock.server.openapi import answers
from penstock.server.parameters import ListQuery, page_of, sorting
from penstock.server.problem import Json
from penstock.server.routing import Router
from penstock.store.metrics import MetricsRange, tokens

router = Router(prefix="/api/agents", tags=["agents"])
metrics_router = Router(prefix="/api/agents/{agent_id}/tools", tags=["tools"])
permissions_router = Router(prefix="/api/permissions", tags=["permissions"])

SORTS = ("name", "model", "source")
"""The orders of agents."""


class AgentsQuery(ListQuery):
    """The query of a list of agents."""

    sort: str = sorting(SORTS)


@router.get("", responses=answers("Agents"), response_class=Json)
async def list_agents(request: Request, query: Annotated[AgentsQuery, Query()]) -> Response:
    """Return the agents; `sort` is name, model or source."""
    context, _ = context_of(request), allowed(request, READ)
    by, page = query.sorted_by(SORTS), query.page
    needle = query.search.casefold()
    agents = [
        _agent(agent)
        for agent in context.chat.agents.list()
        if needle in f"{agent.name}\n{agent.description}".casefold()
    ]
    agents.sort(
        key=lambda each: (each[by] or "", each["name"]), reverse=page.descends(usually=False)
    )
    return page_of("agents", agents[page.offset : page.offset + page.limit], page, len(agents))


@router.get("/{agent_id}", responses=answers("Agent"), response_class=Json)
async def read_agent(agent_id: str, request: Request) -> Response:
    """Return one agent, with its instructions and settings."""
    context, _ = context_of(request), allowed(request, READ)
    agent = context.chat.agents.get(agent_id)
    more = {"instructions": agent.instructions, "settings": _settings(agent.settings)}
    return Json(_agent(agent) | more)


@router.get("/{agent_id}/settings", responses=answers("AgentSettings"), response_class=Json)
async def read_settings(agent_id: str, request: Request) -> Response:
    """Return all settings of an agent, and the names of those that differ from the defaults."""
    context, _ = context_of(request), allowed(request, READ)
    agent = context.chat.agents.get(agent_id)
    settings, usual = _settings(agent.settings), _settings(DEFAULTS)
    overridden = [name for name, value in settings.items() if value != usual[name]]
    return Json({"settings": settings, "overridden": overridden})


def _agent(agent: Agent) -> dict[str, Any]:
    model, contract = agent.model, agent.contract
    more = {} if contract is None else {"outputSchema": dict(contract.schema)}
    others = {"handoffs": [*agent.transfers.values()]} if agent.transfers else {}
    return (
        more
        | others
        | {
            "id": agent.name,
            "name": agent.name,
            "description": agent.description,
            "model": model if model is None or isinstance(model, str) else model.card.model_id,
            "source": agent.profile.source,
            "created_at": None,
            "updated_at": None,
        }
    )


def _settings(settings: ChatSettings) -> dict[str, Any]:
    return asdict(settings)


_DEFAULT_PERIOD = timedelta(days=7)
_LAST_MOMENT = 253_402_300_799_000
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _moment(text: str) -> Moment:
    """Parse a time with its zone."""
    if not _TIME.fullmatch(text):
        raise ValueError(f"must be a time such as 2026-11-21T09:00:00Z, found {cut(text, 40)!r}")
    moment = int(datetime.fromisoformat(text).timestamp() * 1000)
    return Moment(min(max(moment, 0), _LAST_MOMENT))


Time = Annotated[str, AfterValidator(_moment), Field(json_schema_extra={"format": "date-time"})]


class MetricsQuery(BaseModel):
    """The query of metrics: a period, and one tool."""

    since: Time | None = Field(default=None, alias="from")
    until: Time | None = Field(default=None, alias="to")
    tool: str | None = None


@metrics_router.get("/metrics", responses=answers("Metrics"), response_class=Json)
async def read_metrics(
    agent_id: str, request: Request, query: Annotated[MetricsQuery, Query()]
) -> Response:
    """Return the use of each tool, and the tokens of each model; by default of the last 7 days."""
    context, _ = context_of(request), allowed(request, READ)
    now = context.world.clock.now()
    until = Moment(now + 1 if query.until is None else int(query.until))
    usual = int(_DEFAULT_PERIOD.total_seconds() * 1000)
    since = Moment(max(until - usual, 0) if query.since is None else int(query.since))
    definitions = _definitions(context.chat, agent_id)
    span = MetricsRange(agent=agent_id, since=since, until=until)
    counted = await context.kept.metrics.of_agent(span, definitions)
    tallies = counted.tools
    if not (tallies or counted.models):
        context.chat.agents.get(agent_id)
    shown = [
        tally.to_wire(tool_id)
        for tool_id, tally in tallies.items()
        if query.tool is None or query.tool == tool_id
    ]
    meta = {"from": to_iso(since), "to": to_iso(until)}
    return Json({"metrics": shown, "models": counted.models_to_wire(), "meta": meta})


def _definitions(chat: ChatParts, agent_id: str) -> dict[str, int]:
    """Return the tokens of each tool's definition; none for an agent that does not exist."""
    agent, sizes = chat.agents.find(agent_id), dict[str, int]()
    if agent is None:
        return sizes
    for tool in chat.participants.invoker(agent).registry:
        shown = definition(tool)
        parameters: dict[str, Any] = dict(shown.parameters)
        text = f"{shown.name}{shown.description}{compact(parameters)}"
        sizes[tool.spec.tool_id] = tokens(text)
    return sizes


@permissions_router.get("", responses=answers("Permissions"), response_class=Json)
async def list_permissions(request: Request) -> Response:
    """Return the permission catalog; without one there are no groups, and any id is valid."""
    context, _ = context_of(request), allowed(request, READ)
    catalog = context.keys.catalog if context.keys else None
    if catalog is None:
        return Json({"catalogId": None, "version": None, "groups": []})
    groups = [_group(each) for each in catalog.groups]
    return Json({"catalogId": catalog.catalog_id, "version": catalog.version, "groups": groups})


def _group(group: PermissionGroup) -> dict[str, Any]:
    permissions = [
        {
            "permissionId": permission.permission_id,
            "name": permission.name,
            "description": permission.description,
        }
        for permission in group.permissions
    ]
    return {
        "groupId": group.group_id,
        "name": group.name,
        "description": group.description,
        "permissions": permissions,
    }
