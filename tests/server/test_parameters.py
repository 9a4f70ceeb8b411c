"""Bodies within their limit, with every problem named; queries and pages of lists."""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.requests import Request

from penstock.chat.requests import RequestKey
from penstock.core.errors import BadRequest, InvalidRequest, TooLarge, UnsupportedType
from penstock.server.parameters import (
    NOT_BLANK,
    Form,
    HistoryQuery,
    ListQuery,
    StreamQuery,
    key_of,
    page_of,
    read_json,
)
from penstock.store.projections import Page

FORM = Form(
    {"content": {"type": "string"}, "limit": {"type": ["integer", "null"]}},
    required=("content",),
    aliases={"message": "content"},
)


def request(*chunks: bytes, path: str = "/", **headers: str) -> Request:
    """Return a request with this body."""
    named = {"content_type": "application/json"} | headers
    raw = [(name.replace("_", "-").encode(), text.encode()) for name, text in named.items()]
    sent = iter([*chunks[:-1], chunks[-1] if chunks else b""])

    async def receive() -> dict[str, Any]:
        body = next(sent)
        return {"type": "http.request", "body": body, "more_body": body != (chunks or [b""])[-1]}

    scope = {"type": "http", "method": "POST", "path": path, "headers": raw}
    return Request(scope, receive)


async def test_a_body_in_chunks_is_read_completely() -> None:
    value, raw = await read_json(request(b'{"a":', b"1}"), 100)
    assert (value, raw) == ({"a": 1}, b'{"a":1}')


async def test_reading_stops_at_the_limit_of_the_body() -> None:
    with pytest.raises(TooLarge, match="has 900 bytes, the limit is 10"):
        await read_json(request(b"{}", content_length="900"), 10)
    with pytest.raises(TooLarge, match="has more than 10 bytes"):
        await read_json(request(b"[" * 8, b"[" * 8, b"never"), 10)


async def test_a_body_of_exactly_the_limit_is_read() -> None:
    body = b'{"a":1}'
    assert await read_json(request(body, content_length="7"), 7) == ({"a": 1}, body)
    for short in (request(body, content_length="7"), request(body)):
        with pytest.raises(TooLarge):
            await read_json(short, 6)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"NaN", b"[1,]", b"{'a':1}", b"[" * 99_999]
)
async def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        await read_json(request(body), 1_000_000)


@pytest.mark.parametrize("media_type", ["text/plain", "application/jsonp", ""])
async def test_another_content_type_is_refused(media_type: str) -> None:
    with pytest.raises(UnsupportedType, match="must be application/json"):
        await read_json(request(b"{}", content_type=media_type), 100)


def test_a_refusal_cuts_the_text_of_the_client() -> None:
    with pytest.raises(InvalidRequest) as caught:
        FORM.read({f"{number}" * 9_000: 1 for number in range(90)})
    assert len(caught.value.problems) == 50
    assert max(len(each["field"]) for each in caught.value.problems) == 101


def test_a_required_text_must_not_be_blank() -> None:
    form = Form({"content": {"type": "string", "minLength": 1, "pattern": NOT_BLANK}})
    for blank in ("", " \n\t"):
        with pytest.raises(InvalidRequest) as caught:
            form.read({"content": blank})
        assert caught.value.problems == [{"field": "/content", "issue": "must not be blank"}]
    assert form.read({"content": " a"}) == {"content": " a"}


async def test_a_content_type_can_have_parameters() -> None:
    asked = request(b"{}", content_type="Application/JSON; charset=utf-8")
    assert (await read_json(asked, 100))[0] == {}


def bare(*chunks: bytes) -> Request:
    """Return a request without a content type."""
    sent = request(*chunks)
    return Request({**sent.scope, "headers": []}, sent.receive)


async def test_an_optional_body_can_be_omitted() -> None:
    assert await read_json(bare(b""), 100, empty={}) == ({}, b"")


@pytest.mark.parametrize("chunks", [[b'{"input":{"n":1}}'], [b"", b"{}"]])
async def test_a_body_without_a_content_type_is_refused(chunks: list[bytes]) -> None:
    """A tool that runs with `{}` in its place does something that the caller did not ask for."""
    with pytest.raises(UnsupportedType, match="must be application/json, found none"):
        await read_json(bare(*chunks), 100, empty={})


async def test_a_lone_surrogate_is_replaced() -> None:
    value, _ = await read_json(request(b'{"\\uD800":["a\\udfffb","\\ud83d\\ude00"]}'), 100)
    assert value == {"\ufffd": ["a\ufffdb", "😀"]}


def test_a_valid_body_is_returned_with_its_names() -> None:
    assert FORM.read({"message": "x", "limit": None}) == {"content": "x"}
    assert FORM.read({"message": "x", "content": "x"}) == {"content": "x"}


REFUSED = [
    ([], [("", "must be an object")]),
    ({}, [("/content", "is missing")]),
    ({"content": 1}, [("/content", '1 is not of type "string"')]),
    (
        {"content": "x", "message": "y"},
        [("/message", "is another name of 'content', and both have different values")],
    ),
    (
        {"contnt": "x", "a/b~": 1, "limit": "2"},
        [
            ("/contnt", "is not known. Did you mean 'content'?"),
            ("/a~1b~0", "is not known. Known are content, limit."),
            ("/limit", '"2" is not of types "null", "integer"'),
            ("/content", "is missing"),
        ],
    ),
]


@pytest.mark.parametrize(("body", "problems"), REFUSED)
def test_every_problem_of_a_form_is_named(body: Any, problems: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        FORM.read(body)
    assert [(each["field"], each["issue"]) for each in caught.value.problems] == problems


def test_a_form_has_a_schema_without_aliases() -> None:
    assert FORM.schema["required"] == ["content"]
    assert FORM.schema["additionalProperties"] is False
    assert "required" not in Form({"a": {}}).schema


def test_equal_json_has_the_same_request_hash() -> None:
    """Spec: "same key and body within 24 h attaches to the same task"."""
    named = request(path="/a", idempotency_key="k")
    same = (b'{"a":1,"b":[1.0]}', b' {"b": [1],\n"a": 1}')
    first, again = (key_of(named, each) for each in same)
    assert first == again
    others = (b'{"a":1,"b":[2]}', b'{"a":"1","b":[1]}', b"{}")
    assert not {first} & {key_of(named, each) for each in others}
    assert key_of(named, b"") == key_of(named, b"{}")
    assert key_of(request(path="/b", idempotency_key="k"), same[0]) != first


def test_a_request_without_an_idempotency_key_has_no_hash() -> None:
    assert key_of(request(), b"not looked at") == RequestKey()


def test_a_list_starts_at_its_first_item() -> None:
    assert ListQuery().page == Page(limit=50, offset=0)
    assert HistoryQuery().view == "chat"
    assert StreamQuery(conversationId="c").start == "start"


def test_a_list_has_the_requested_order() -> None:
    assert ListQuery().sorted_by(("name", "source")) == "name"
    assert ListQuery(sort="source").sorted_by(("name", "source")) == "source"
    assert ListQuery(order="asc").page.is_descending is False
    assert ListQuery(order="desc").page.is_descending is True


def test_an_unknown_sort_field_is_refused() -> None:
    """Another `sort` field than listed: 422."""
    with pytest.raises(InvalidRequest) as refused:
        ListQuery(sort="Name").sorted_by(("name", "source"))
    issue = "must be one of: name, source; found 'Name'"
    assert refused.value.problems == [{"field": "/sort", "issue": issue}]


@pytest.mark.parametrize(("limit", "offset"), [(1, 0), (200, 2**53)])
def test_the_bounds_of_a_list_are_accepted(limit: int, offset: int) -> None:
    assert ListQuery(limit=limit, offset=offset).page == Page(limit=limit, offset=offset)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 201},
        {"offset": -1},
        {"offset": 2**53 + 1},
        {"search": "x" * 201},
        {"order": "up"},
    ],
)
def test_a_query_outside_its_bounds_is_refused(query: dict[str, int | str]) -> None:
    with pytest.raises(ValidationError):
        ListQuery.model_validate(query)


def test_a_page_uses_the_name_of_its_items_as_key() -> None:
    response = page_of("agents", [1], Page(limit=1, offset=2), 9)
    assert json.loads(bytes(response.body)) == {
        "agents": [1],
        "meta": {"total": 9, "limit": 1, "offset": 2},
    }


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"a": "x"}, []),
        ({"b": [1]}, []),
        ({}, ["/a"]),
        ({"a": None, "b": []}, ["/a"]),
        ({"a": " "}, ["/a"]),
    ],
)
def test_a_form_can_need_one_of_several_keys(body: dict[str, Any], fields: list[str]) -> None:
    form = Form(
        {"a": {"type": ["string", "null"], "pattern": NOT_BLANK}, "b": {}}, any_of=("a", "b")
    )
    assert form.schema["anyOf"] == [{"required": ["a"]}, {"required": ["b"]}]
    found = []
    try:
        form.read(body)
    except InvalidRequest as error:
        found = [each["field"] for each in error.problems]
    assert found == fields
