"""The flows of the project: read, write and check them; and the agents that flows can name."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from penstock.agents.agent_profile import Tier
from penstock.agents.catalog import catalog_entries
from penstock.app.authoring import ProjectAuthoring
from penstock.app.runtime_parts import FlowParts
from penstock.core.call_errors import NotAvailable
from penstock.core.diagnostics import errors_of, has_error, in_file_order
from penstock.core.errors import InvalidRequest, StoreFull
from penstock.core.profile import MANAGE, READ
from penstock.flows.definition import Step
from penstock.flows.parsing import read_flow as reading
from penstock.flows.pictures import mermaid
from penstock.flows.project.authoring import WrittenFlow, check_local, remove_flow, write_flow
from penstock.flows.project.files import FOLDERS, FlowFile
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.library import unknown_flow
from penstock.flows.starting import FLOW_INVALID
from penstock.server.context import allowed, context_of
from penstock.server.openapi import answers, takes
from penstock.server.parameters import Form, ListQuery, page_of, read_json, sorting
from penstock.server.problem import Json, error_response
from penstock.server.routing import Router

router = Router(prefix="/api", tags=["flows"])

SORTS = ("name", "source")
"""The orders of flows."""
_CONTENT = {"type": "string"}
CONTENT = Form({"content": _CONTENT}, required=("content",))
CHECKED = Form({"content": _CONTENT, "dryRun": {"type": "boolean"}}, required=("content",))
NEW_FLOW = Form(
    {"path": {"type": "string", "minLength": 1, "maxLength": 1000}, "content": _CONTENT},
    required=("path", "content"),
)
NO_FOLDER = "this server has no project folder, so it has no flows: serve a folder"
_UNWRITTEN = f"{FOLDERS[0]}/unwritten.yaml"
"""The path under which a text is checked that is not stored."""


class FlowsQuery(ListQuery):
    """The query of a list of flows."""

    sort: str = sorting(SORTS)


@router.get("/flows", responses=answers("Flows"), response_class=Json)
async def list_flows(request: Request, query: Annotated[FlowsQuery, Query()]) -> Response:
    """Return the flows; `sort` is name or source."""
    context, _ = context_of(request), allowed(request, READ)
    by, page, flows = query.sorted_by(SORTS), query.page, flows_of(context.flows)
    needle = query.search.casefold()
    listed = [each.to_wire() for each in await asyncio.to_thread(flows.list)]
    matching = [
        flow for flow in listed if needle in f"{flow['name']}\n{flow['description']}".casefold()
    ]
    matching.sort(key=lambda each: (each[by], each["name"]), reverse=page.descends(usually=False))
    return page_of("flows", matching[page.offset : page.offset + page.limit], page, len(matching))


@router.post(
    "/flows",
    status_code=201,
    responses=answers("WrittenFlow", 201),
    openapi_extra=takes(NEW_FLOW),
    response_class=Json,
)
async def write_new_flow(request: Request) -> Response:
    """Write a flow of the project, replacing an existing one; a flow with errors is refused."""
    context, _ = context_of(request), allowed(request, MANAGE)
    body, _ = await read_json(request, context.limits.request_bytes)
    asked = NEW_FLOW.read(body)
    return await _write(context.flows, asked["path"], asked["content"], 201)


@router.post(
    "/flows/check", responses=answers("Findings"), openapi_extra=takes(CHECKED), response_class=Json
)
async def check_flow(request: Request) -> Response:
    """Return all errors in the text of a flow, without storing it.

    With `dryRun`, also run every path through the flow without side effects.
    """
    context, _ = context_of(request), allowed(request, READ)
    body, _ = await read_json(request, context.limits.request_bytes)
    flows, asked = flows_of(context.flows), CHECKED.read(body)
    file = FlowFile(command="unwritten", path=_UNWRITTEN, root=flows.root, tier=Tier.LOCAL)
    content = asked["content"]
    diagnostics = await asyncio.to_thread(flows.check_text, file, content)
    more = {}
    if (
        asked.get("dryRun")
        and not has_error(diagnostics)
        and (runs := _authoring_of(context.flows).dry_runs) is not None
    ):
        dry, problems = await asyncio.to_thread(runs.run, reading(content, file.name))
        diagnostics, more = in_file_order([*diagnostics, *problems]), {"dryRun": dry.to_wire()}
    return Json({"diagnostics": [each.to_finding() for each in diagnostics], **more})


@router.get("/flows/{name}", responses=answers("Flow"), response_class=Json)
async def read_flow(name: str, request: Request) -> Response:
    """Return one flow: its text, its steps, its errors, and a diagram in Mermaid."""
    context, _ = context_of(request), allowed(request, READ)
    flows = flows_of(context.flows)
    file = await file_of(flows, name)
    summary, read = await asyncio.to_thread(flows.summary, file)
    steps: Sequence[Step] = read.flow.steps if read.flow else ()
    more = {
        "content": read.text,
        "steps": [step_part(each) for each in steps],
        "diagnostics": [each.to_finding() for each in summary.diagnostics],
        "graph": mermaid(read.flow) if read.flow else None,
    }
    return Json(summary.to_wire() | more)


@router.put(
    "/flows/{name}",
    responses=answers("WrittenFlow"),
    openapi_extra=takes(CONTENT),
    response_class=Json,
)
async def replace_flow(name: str, request: Request) -> Response:
    """Replace a flow of the project; a flow with errors is refused, and the old one stays."""
    context, _ = context_of(request), allowed(request, MANAGE)
    body, _ = await read_json(request, context.limits.request_bytes)
    flows, content = flows_of(context.flows), CONTENT.read(body)["content"]
    file = await file_of(flows, name)
    check_local(file)
    return await _write(context.flows, file.path, content, 200)


@router.delete(
    "/flows/{name}", status_code=204, responses=answers(None, 204), response_class=Response
)
async def delete_flow(name: str, request: Request) -> Response:
    """Delete a flow of the project; its runs remain. 409 while a schedule runs it."""
    context, _ = context_of(request), allowed(request, MANAGE)
    file = await file_of(flows_of(context.flows), name)
    check_local(file)
    await context.chat.schedules.check_unused(file.command)
    remove_flow(file)
    await asyncio.to_thread(_authoring_of(context.flows).rediscover)
    return Response(status_code=204)


@router.get("/catalog", responses=answers("Catalog"), response_class=Json)
async def read_catalog(request: Request) -> Response:
    """Return the agents that flows can name, as the flow architect sees them."""
    context, _ = context_of(request), allowed(request, READ)
    return Json(catalog_entries(context.chat.agents))


def _authoring_of(parts: FlowParts) -> ProjectAuthoring:
    if parts.authoring is None:
        raise NotAvailable(NO_FOLDER)
    return parts.authoring


def flows_of(parts: FlowParts) -> ProjectFlows:
    """Return the flows of the project. Raises NotAvailable without a project folder."""
    if parts.files is None:
        raise NotAvailable(NO_FOLDER)
    return parts.files


async def file_of(flows: ProjectFlows, name: str) -> FlowFile:
    """Return the file of a flow. Raises NotFound, which names the nearest flow."""
    files = (await asyncio.to_thread(flows.files)).files
    if name not in files:
        raise unknown_flow(name, files)
    return files[name]


def step_part(step: Step) -> dict[str, str]:
    """Return a step for a list."""
    agent = getattr(step, "agent", None)
    return {"id": step.step_id, "type": step.kind} | ({"agent": agent} if agent else {})


async def _write(parts: FlowParts, path: str, content: str, status: int) -> Response:
    flows, authoring = flows_of(parts), _authoring_of(parts)
    written = await asyncio.to_thread(write_flow, flows, path, content)
    if written.is_written:
        await asyncio.to_thread(authoring.rediscover)
        dry = await asyncio.to_thread(authoring.dry_run, written, content)
        return Json({**written.to_wire(), "name": written.command, **dry}, status)
    if written.is_full:
        raise StoreFull(written.error)
    if written.error:
        raise InvalidRequest([{"field": "/path", "issue": written.error}])
    return _invalid(written)


def _invalid(written: WrittenFlow) -> Json:
    errors = errors_of(written.diagnostics)
    counted = "an error" if len(errors) == 1 else f"{len(errors)} errors"
    message = f"the flow has {counted} and was not written; line {errors[0].line}: "
    details = {"diagnostics": [each.to_finding() for each in written.diagnostics]}
    return error_response(422, FLOW_INVALID, message + errors[0].text, details=details)
