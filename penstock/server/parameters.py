"""Input of clients: bodies, which are hostile, and queries of lists; and pages of lists.

`read_body` stops at the limit, whatever Content-Length says. `parse_json` refuses NaN, infinity and
numbers that overflow; nesting that exhausts the stack is a 400. A form reports all errors of a body
together, and messages cut the texts of the client that they repeat. A NUL is refused here:
PostgreSQL would refuse it later, as an internal error.

Tests: tests/server/test_parameters.py.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from penstock.chat.history import HistoryView
from penstock.chat.requests import RequestKey
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import BadRequest, InvalidRequest, TooLarge, UnsupportedType
from penstock.core.ids import MessageId, TaskId
from penstock.core.json_values.json_text import canonical, parse_json
from penstock.core.json_values.schema import MAX_PROBLEMS, Schema
from penstock.core.text import cut
from penstock.server.problem import Json
from penstock.store.projections import Page

JSON_TYPE = "application/json"
NOT_BLANK = r"\S"
"""The pattern of a text that is not only white space."""
NO_NUL = r"^[^\u0000]*$"
"""The pattern of an id: PostgreSQL cannot store a NUL."""
ID = {"type": ["string", "null"], "minLength": 1, "maxLength": 200, "pattern": NO_NUL}
NAME_CHARACTERS = 100
"""How much of an unknown name a message repeats."""
KEY_CHARACTERS = 255
"""The longest Idempotency-Key."""
Number = Annotated[int, Field(ge=1, le=200)]
Words = Annotated[str, Field(max_length=200)]
SORT_CHARACTERS = 60
"""How much of an unknown field of `sort` a message repeats."""


class Form:
    """The form of a body: an object with these keys and no others."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        *,
        required: tuple[str, ...] = (),
        any_of: tuple[str, ...] = (),
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.aliases = dict(aliases or {})
        """Other accepted names of keys, each with the key that it means."""
        self._properties = dict(properties)
        self._required = required
        self._any_of = any_of
        """At least one of these keys must be present."""
        self._check = Schema({"type": "object", "properties": _without_patterns(properties)})

    @property
    def schema(self) -> dict[str, Any]:
        """The form as a JSON Schema, without the aliases: those are accepted but not documented."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": self._properties,
            "additionalProperties": False,
        }
        if self._any_of:
            schema["anyOf"] = [{"required": [each]} for each in self._any_of]
        return schema | ({"required": list(self._required)} if self._required else {})

    def read(self, body: Any) -> dict[str, Any]:
        """Return the body with aliases resolved and without nulls. Raises InvalidRequest."""
        if not isinstance(body, dict):
            raise InvalidRequest([{"field": "", "issue": "must be an object"}])
        problems: list[dict[str, str]] = []
        plain = self._renamed(body, problems)
        blank = self._of(NOT_BLANK, plain, lambda text: not text.strip())
        problems += [{"field": each, "issue": "must not be blank"} for each in blank]
        nul = self._of(NO_NUL, plain, lambda text: "\x00" in text)
        problems += [{"field": each, "issue": "must not hold a NUL"} for each in nul]
        problems += [
            {"field": problem.path, "issue": problem.message}
            for problem in self._check.problems(plain)
            if problem.path not in blank
        ]
        problems += [
            {"field": f"/{name}", "issue": "is missing"}
            for name in self._required
            if name not in plain
        ]
        if self._any_of and all(plain.get(name) in (None, []) for name in self._any_of):
            issue = f"is missing; expected {' or '.join(self._any_of)}"
            problems.append({"field": f"/{self._any_of[0]}", "issue": issue})
        if problems:
            raise InvalidRequest(problems[:MAX_PROBLEMS])
        return {name: value for name, value in plain.items() if value is not None}

    def _of(
        self, pattern: str, plain: dict[str, Any], is_wrong: Callable[[str], bool]
    ) -> list[str]:
        """Return the fields with this pattern whose text is wrong."""
        texts = ((name, plain.get(name)) for name, rule in self._properties.items()
                 if rule.get("pattern") == pattern)  # fmt: skip
        return [f"/{name}" for name, text in texts if isinstance(text, str) and is_wrong(text)]

    def _renamed(self, body: dict[str, Any], problems: list[dict[str, str]]) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, value in body.items():
            name = self.aliases.get(key, key)
            if name not in self._properties:
                known = [*self._properties, *self.aliases]
                hint = (
                    did_you_mean(cut(key, NAME_CHARACTERS), known)
                    or f" Known are {', '.join(self._properties)}."
                )
                problems.append({"field": _pointer(key), "issue": f"is not known.{hint}"})
            elif name in plain and plain[name] != value:
                issue = f"is another name of {name!r}, and both have different values"
                alias = next(each for each, meant in self.aliases.items() if meant == name)
                problems.append({"field": _pointer(alias), "issue": issue})
            else:
                plain[name] = value
        return plain


def _without_patterns(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules without our patterns: `read` checks those faster and reports them better."""
    return {
        name: {key: value for key, value in rule.items() if value not in (NOT_BLANK, NO_NUL)}
        for name, rule in properties.items()
    }


async def read_json(request: Request, limit: int, *, empty: Any = None) -> tuple[Any, bytes]:
    """Return the body as a value and as bytes; `empty`, if set, is the value of a missing body.

    Raises UnsupportedType, TooLarge, BadRequest.
    """
    if empty is not None and "content-type" not in request.headers and await _is_empty(request):
        return empty, b""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON_TYPE:
        shown = repr(cut(media_type, NAME_CHARACTERS)) if media_type else "none"
        raise UnsupportedType(f"the content type must be {JSON_TYPE}, found {shown}")
    raw = await read_body(request, limit)
    try:
        return parse_json(raw), raw
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    except ValueError as error:
        raise BadRequest(f"the body is not JSON in UTF-8: {error}") from None


def key_of(request: Request, raw: bytes) -> RequestKey:
    """Return the request's Idempotency-Key with a hash of path and body, or an empty key.

    The body must have passed `read_json`. Equal JSON is the same request. Raises BadRequest.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return RequestKey()
    if not 0 < len(key) <= KEY_CHARACTERS:
        raise BadRequest(f"an Idempotency-Key has 1 to {KEY_CHARACTERS} characters")
    try:
        body = canonical(parse_json(raw or b"{}"))
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    request_hash = sha256(f"{request.url.path}\n{body}".encode()).hexdigest()
    return RequestKey(key, request_hash)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body as bytes. Raises TooLarge."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise TooLarge(f"the body has {declared} bytes, the limit is {limit}")
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > limit:
            raise TooLarge(f"the body has more than {limit} bytes, the limit")
    return bytes(raw)


async def _is_empty(request: Request) -> bool:
    """Whether the request has no body; stops at the first byte."""
    async for chunk in request.stream():
        if chunk:
            return False
    return True


def _pointer(key: str) -> str:
    return "/" + cut(key, NAME_CHARACTERS).replace("~", "~0").replace("/", "~1")


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
            issue = f"must be one of: {', '.join(allowed)}; found {cut(name, SORT_CHARACTERS)!r}"
            raise InvalidRequest([{"field": "/sort", "issue": issue}])
        return name


class ListQuery(PageQuery):
    """The query of a list that can be searched."""

    search: Words = ""


class HistoryQuery(BaseModel):
    """The query of a conversation's messages."""

    model_config = ConfigDict(use_enum_values=False)

    session_id: str | None = Field(default=None, alias="conversationId")
    view: HistoryView = HistoryView.CHAT
    limit: Number = 50
    before: MessageId | None = None
    search: Words = ""


class StreamQuery(BaseModel):
    """The query of a stream: which conversation, and from which position."""

    session_id: str = Field(alias="conversationId")
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
