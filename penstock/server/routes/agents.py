"""The agents of the project, and their settings."""

from typing import Annotated, Any

from fastapi import Query, Request
from msgspec.structs import asdict
from starlette.responses import Response

from penstock.agents.agent import Agent
from penstock.agents.settings import DEFAULTS, ChatSettings
from penstock.core.profile import READ
from penstock.server.context import allowed, context_of
from penstock.server.requests.lists import ListQuery, page_of, sorting
from penstock.server.requests.problem import Json
from penstock.server.routes.router import Router
from penstock.server.schemas.openapi import answers

router = Router(prefix="/api/agents", tags=["agents"])

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
    found = [
        _agent(each)
        for each in context.runtime.parts.agents.list()
        if needle in f"{each.name}\n{each.description}".casefold()
    ]
    found.sort(
        key=lambda each: (each[by] or "", each["name"]), reverse=page.descends(usually=False)
    )
    return page_of("agents", found[page.offset : page.offset + page.limit], page, len(found))


@router.get("/{agent_id}", responses=answers("Agent"), response_class=Json)
async def read_agent(agent_id: str, request: Request) -> Response:
    """Return one agent, with its instructions and settings."""
    context, _ = context_of(request), allowed(request, READ)
    agent = context.runtime.parts.agents.get(agent_id)
    more = {"instructions": agent.instructions, "settings": _settings(agent.settings)}
    return Json(_agent(agent) | more)


@router.get("/{agent_id}/settings", responses=answers("AgentSettings"), response_class=Json)
async def read_settings(agent_id: str, request: Request) -> Response:
    """Return all settings of an agent, and the names of those that differ from the defaults."""
    context, _ = context_of(request), allowed(request, READ)
    agent = context.runtime.parts.agents.get(agent_id)
    settings, usual = _settings(agent.settings), _settings(DEFAULTS)
    overridden = [name for name, value in settings.items() if value != usual[name]]
    return Json({"settings": settings, "overridden": overridden})


def _agent(agent: Agent) -> dict[str, Any]:
    model = agent.model
    return {
        "id": agent.name,
        "name": agent.name,
        "description": agent.description,
        "model": model if model is None or isinstance(model, str) else model.card.model_id,
        "source": agent.source,
        "created_at": None,
        "updated_at": None,
    }


def _settings(settings: ChatSettings) -> dict[str, Any]:
    return asdict(settings)
