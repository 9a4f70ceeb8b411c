"""How routes are described."""

from penstock.server.application import create_application
from penstock.server.requests.bodies import Form
from penstock.server.schemas.openapi import PROBLEM, answers, document, streams, takes
from penstock.testing.runtime import memory_runtime


def test_what_a_route_answers() -> None:
    found = answers("Exchange", s202="Waiting")
    assert list(found) == [200, 202, "default"]
    assert found["default"] is PROBLEM
    assert answers(None, 204)[204] == {"description": "Done; nothing to say"}


def test_a_route_that_streams_says_so() -> None:
    """Each item is described: a `schema` would be of the stream as a list of them."""
    content = streams(answers(None, 204))[200]["content"]
    assert list(content) == ["text/event-stream"]
    assert list(content["text/event-stream"]) == ["itemSchema"]


def test_what_a_route_takes() -> None:
    body = takes(Form({"a": {}}), required=False)["requestBody"]
    assert body["required"] is False
    assert body["content"]["application/json"]["schema"]["properties"] == {"a": {}}


async def test_the_document_is_made_once() -> None:
    async with memory_runtime() as runtime:
        app = create_application(runtime)
        assert document(app) is document(app)
        assert "HTTPValidationError" not in document(app)["components"]["schemas"]
