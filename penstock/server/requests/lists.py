"""Query parameters and answers of lists."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from penstock.chat.history import HistoryView
from penstock.core.errors import InvalidRequest
from penstock.core.ids import MessageId, TaskId
from penstock.core.text import cut
from penstock.server.requests.problem import Json
from penstock.store.projections.projections import Page

Number = Annotated[int, Field(ge=1, le=200)]
Words = Annotated[str, Field(max_length=200)]
_NAME_CHARACTERS = 60


def sorting(fields: Collection[str]) -> Any:
    """Return the field `sort` of a list's query; the first of these names is the default.

    The type is text, so that `PageQuery.sorted_by` reports another name with its field, as a 422.
    """
    known = list(fields)
    return Field(default=known[0], json_schema_extra={"enum": [*known]})


class PageQuery(BaseModel):
    """The query of a list: which page, in which order."""

    limit: Number = 50
    offset: int = Field(default=0, ge=0, le=2**53)
    sort: str = ""
    order: Literal["asc", "desc"] | None = None

    @property
    def page(self) -> Page:
        """The page."""
        is_descending = None if self.order is None else self.order == "desc"
        return Page(limit=self.limit, offset=self.offset, is_descending=is_descending)

    def sorted_by(self, allowed: Collection[str]) -> str:
        """Return the field that orders the list; the first allowed one is the default.

        Raises InvalidRequest for a field that is not allowed.
        """
        name = self.sort or next(iter(allowed))
        if name not in allowed:
            issue = f"must be one of: {', '.join(allowed)}; found {cut(name, _NAME_CHARACTERS)!r}"
            raise InvalidRequest([{"field": "/sort", "issue": issue}])
        return name


class ListQuery(PageQuery):
    """The query of a list that can be searched."""

    search: Words = ""


class HistoryQuery(BaseModel):
    """The query of a conversation's messages."""

    model_config = ConfigDict(use_enum_values=False)

    conversation_id: str | None = Field(default=None, alias="conversationId")
    view: HistoryView = HistoryView.CHAT
    limit: Number = 50
    before: MessageId | None = None
    search: Words = ""


class StreamQuery(BaseModel):
    """The query of a stream: which conversation, and from which position."""

    conversation_id: str = Field(alias="conversationId")
    task_id: TaskId | None = Field(default=None, alias="taskId")
    start: Literal["start", "now"] = Field(default="start", alias="from")
    last: str | None = Field(default=None, alias="lastEventId")
    follow: bool = False


InHistory = Annotated[HistoryQuery, Query()]
InStream = Annotated[StreamQuery, Query()]


def page_of(name: str, items: Sequence[Any], page: Page, total: int) -> Json:
    """Return a page of a list; `name` is the key of its items."""
    meta = {"total": total, "limit": page.limit, "offset": page.offset}
    return Json({name: items, "meta": meta})
