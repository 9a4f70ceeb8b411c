"""Questions that tasks ask people: list and read them, and answer one."""

from typing import Annotated

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from penstock.chat.wire_forms import question_record
from penstock.core.errors import InvalidRequest, NotFound
from penstock.core.ids import LogId, QuestionId
from penstock.core.profile import READ
from penstock.core.task import QuestionStatus
from penstock.server.context import admitted, context_of, listed_for, owned
from penstock.server.openapi import answers, takes
from penstock.server.parameters import Form, PageQuery, page_of, read_json, sorting
from penstock.server.problem import Json
from penstock.server.routing import Router

router = Router(prefix="/api/questions", tags=["questions"])

QUESTION_SORTS = ("createdAt",)
"""The orders of questions."""
_TEXT = {"type": ["string", "null"]}
ANSWER = Form(
    {
        "decision": {"enum": ["approve", "reject", None]},
        "input": {"type": ["object", "null"]},
        "note": _TEXT,
        "value": {},
        "text": _TEXT,
        "answer": {},
        "notes": _TEXT,
        "decide": {"type": ["boolean", "null"]},
        "cancel": {"type": ["boolean", "null"]},
        "resume_payload": {},
    }
)
"""The keys of answers; the kind of the question decides which are valid."""


class QuestionQuery(PageQuery):
    """The query of a list of questions."""

    sort: str = sorting(QUESTION_SORTS)
    status: QuestionStatus | None = None
    agent_id: str | None = Field(default=None, alias="agentId")
    session_id: LogId | None = Field(default=None, alias="conversationId")


@router.get("", responses=answers("Questions"), response_class=Json)
async def list_questions(request: Request, query: Annotated[QuestionQuery, Query()]) -> Response:
    """Return questions, oldest first; `sort` is createdAt."""
    context, profile = context_of(request), admitted(request, READ)
    query.sorted_by(QUESTION_SORTS)
    owner, session_id = listed_for(profile, query.session_id)
    records, total = await context.storage.projections.questions(
        profile_id=owner,
        log_id=session_id,
        agent=query.agent_id,
        status=query.status,
        page=query.page,
    )
    return page_of("questions", [question_record(each) for each in records], query.page, total)


@router.get("/{question_id}", responses=answers("Question"), response_class=Json)
async def read_question(question_id: str, request: Request) -> Response:
    """Return one question."""
    context, profile = context_of(request), admitted(request, READ)
    record = await context.storage.projections.find_question(QuestionId(question_id))
    if record is None:
        raise NotFound(f"there is no question {question_id!r}")
    owned(profile, record.profile_id, f"question {question_id!r}", record.log_id)
    return Json(question_record(record))


@router.post(
    "/{question_id}/answer",
    responses=answers("AnsweredQuestion"),
    openapi_extra=takes(ANSWER),
    response_class=Json,
)
async def answer_question(question_id: str, request: Request) -> Response:
    """Answer a question. Repeating the same answer is not an error."""
    context, profile = context_of(request), admitted(request, READ)
    body, _ = await read_json(request, context.limits.request_bytes)
    if not isinstance(body, dict):
        raise InvalidRequest([{"field": "", "issue": "must be an object"}])
    answered = await context.runtime.requests.answer(QuestionId(question_id), body, profile=profile)
    return Json({"question": question_record(answered)})
