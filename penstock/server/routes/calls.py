"""Direct calls: a program calls one tool and receives its envelope."""

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.app.runtime import outcome_of
from penstock.app.runtime_parts import ToolParts
from penstock.chat.calls.direct_tools import DirectTools
from penstock.chat.requests import NewCall, TaskReply
from penstock.chat.task_requests import unknown_skills
from penstock.chat.wire_forms import envelope_part, question_part
from penstock.core.call_errors import CallError, InvalidInput, NotPermitted, ToolNotFound
from penstock.core.envelope import Status
from penstock.core.errors import BadRequest, InvalidRequest, NotFound
from penstock.core.ids import ASSISTANT, TaskId
from penstock.core.json_values.schema import Problem, json_type
from penstock.core.profile import CHAT, READ, Profile
from penstock.server.context import PROFILE, ServerContext, allowed, context_of
from penstock.server.openapi import (
    DEFAULT_SECONDS,
    MAX_SECONDS,
    answers,
    document,
    takes,
    with_tools,
)
from penstock.server.parameters import ID, Form, Number, key_of, page_of, read_json
from penstock.server.problem import Json
from penstock.server.routing import Router, root_of
from penstock.store.projections import Page
from penstock.tools.failures import invalid, problem_details
from penstock.tools.tool import Tool

router = Router(prefix="/api/direct-calls", tags=["direct calls"])

CALL = Form(
    {
        "input": {"type": ["object", "null"]},
        "conversationId": ID,
        "selectedSkillIds": {"type": ["array", "null"], "items": {"type": "string"}},
    }
)
_STATUS = {Status.SUSPENDED: 202, Status.VALIDATION_ERROR: 422}
_REFUSED = {ToolNotFound: 404, NotPermitted: 403}
_POLL_SECONDS = 1.0
_OUTCOMES = answers("CallOutcome", s202="CallWaiting", s403="CallOutcome", s404="CallOutcome") | {
    422: answers("CallOutcome")[200]
}

Offset = Annotated[int, Query(ge=0, le=2**53)]
Wait = Annotated[float, Query(ge=0, le=MAX_SECONDS)]


@router.get("", responses=answers("DirectCalls"), response_class=Json)
async def list_tools(request: Request, limit: Number = 50, offset: Offset = 0) -> Response:
    """Return the tools that this profile can call, by id."""
    context, profile = context_of(request), allowed(request, READ)
    tools = _direct(context.tools).list_for(profile)
    part = [tool_part(each) for each in tools[offset : offset + limit]]
    return page_of("directCalls", part, Page(limit=limit, offset=offset), len(tools))


@router.get("/{tool_id}", responses=answers("DirectCall"), response_class=Json)
async def read_tool(tool_id: str, request: Request) -> Response:
    """Return the input and output schemas of a tool."""
    context, profile = context_of(request), allowed(request, READ)
    # From the list, so that a broken or locked tool is not found here either.
    tools = _direct(context.tools).list_for(profile)
    if (tool := next((each for each in tools if each.spec.tool_id == tool_id), None)) is None:
        raise NotFound(f'no direct-call tool "{tool_id}"')
    return Json(tool_part(tool))


@router.post(
    "/{tool_id}",
    responses=_OUTCOMES,
    openapi_extra=takes(CALL, required=False),
    response_class=Json,
)
async def call_tool(tool_id: str, request: Request, wait: Wait = DEFAULT_SECONDS) -> Response:
    """Call a tool, and wait up to `wait` seconds for its outcome; the call continues after that.

    A repeated `Idempotency-Key` returns the same call.
    """
    context, profile = context_of(request), allowed(request, CHAT)
    body, raw = await read_json(request, context.limits.request_bytes, empty={})
    asked = _asked(body)
    try:
        direct = _direct(context.tools)
        tool = direct.get(tool_id, profile)
        direct.check(tool, _input(tool_id, asked))
        named = await _skills(context, profile, tool_id, asked)
    except CallError as error:
        refused = envelope_part(error.envelope()) | {"taskId": None}
        return Json(refused, _REFUSED.get(type(error), 422))
    call = NewCall(
        tool_id=tool_id,
        input=asked["input"],
        session_id=asked.get("conversationId"),
        selected_skills=named,
        idempotency=key_of(request, raw),
    )
    return await _outcome(context, await context.runtime.start_call(call, profile), wait)


async def _document(request: Request) -> Response:
    """Return the OpenAPI document, with the tools that the profile can call."""
    profile: Profile | None = request.scope.get(PROFILE)
    context: ServerContext | None = request.app.state.lifecycle.context
    tools = _direct(context.tools).list_for(profile) if context and profile else ()
    made, root = with_tools(document(request.app), tools), root_of(request.scope)
    return Json({**made, "servers": [{"url": root}]} if root else made)


DOCUMENT = Route("/openapi.json", _document, include_in_schema=False)


def tool_part(tool: Tool) -> dict[str, Any]:
    """Return the description of a tool for programs."""
    spec = tool.spec
    part: dict[str, Any] = {
        "toolId": spec.tool_id,
        "description": spec.description,
        "inputSchema": dict(spec.input_schema),
        "effect": spec.effect.value,
        "requiresApproval": spec.requires_approval is not False,
    }
    return part | ({} if spec.output_schema is None else {"outputSchema": dict(spec.output_schema)})


async def _outcome(context: ServerContext, task_id: TaskId, seconds: float) -> Response:
    """Wait for the outcome for a number of seconds, or until the server stops."""
    clock, headers = context.world.clock, {"x-task-id": task_id}
    until, reply = clock.monotonic() + seconds, None
    while reply is None and not context.is_draining and (left := until - clock.monotonic()) > 0:
        reply = await context.runtime.requests.wait(task_id, seconds=min(left, _POLL_SECONDS))
    if reply is None:
        return Json({"taskId": task_id}, 202, headers)
    envelope = outcome_of(reply)
    part = envelope_part(envelope) | _questions(reply) | {"taskId": task_id}
    return Json(part, _STATUS.get(envelope.status, 200), headers)


def _questions(reply: TaskReply) -> dict[str, Any]:
    open_ones = [question_part(each.question) for each in reply.questions]
    return {"questions": open_ones} if open_ones else {}


def _asked(body: Any) -> dict[str, Any]:
    """Return the body with its `input` unchecked. Raises BadRequest for an invalid body."""
    input_value = body.get("input") if isinstance(body, dict) else None
    try:
        asked = CALL.read(body if input_value is None else {**body, "input": {}})
    except InvalidRequest as error:
        issues = "; ".join(f"{each['field'] or '/'} {each['issue']}" for each in error.problems)
        raise BadRequest(f"the body of a direct call is invalid: {issues}") from None
    return asked | {"input": {} if input_value is None else input_value}


def _input(tool_id: str, asked: dict[str, Any]) -> dict[str, Any]:
    value = asked["input"]
    if not isinstance(value, dict):
        raise invalid(tool_id, [Problem("", f"must be an object, found {json_type(value)}")])
    return value


async def _skills(
    context: ServerContext, profile: Profile, tool_id: str, asked: dict[str, Any]
) -> tuple[str, ...]:
    """Return the selected skills. Raises InvalidInput for one that cannot be selected."""
    named = tuple(asked.get("selectedSkillIds", ()))
    session_id = asked.get("conversationId")
    session = None
    if session_id and named:
        session = await context.storage.projections.find_session(session_id)
    agent = context.chat.agents.get(session.agent if session else ASSISTANT)
    if wrong := unknown_skills(named, context.chat.participants.skills, agent, profile):
        issues = "; ".join(str(problem) for problem in wrong)
        raise InvalidInput(f"the request is not valid: {issues}", details=problem_details(wrong))
    return named


def _direct(tools: ToolParts) -> DirectTools:
    return DirectTools(tools.invoker)
