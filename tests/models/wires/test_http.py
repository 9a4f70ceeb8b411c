"""The address of a model, the key that is sent to it, and what its errors become."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.errors import (
    ConfigError,
    ContextTooLarge,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from penstock.core.late import late
from penstock.core.limits import Limits
from penstock.core.messages import UserMessage
from penstock.models.model import Model, ModelRequest
from penstock.models.providers import ModelConfig
from penstock.models.wires.http import Endpoint, bearer, usable_key
from tests.kit.model_server import Canned, fake_server


def config(key: str | None, base_url: str = "http://u:p@h:81/v1") -> ModelConfig:
    return ModelConfig(name="m", provider="openai", base_url=base_url, api_key=key)


def test_the_host_has_no_password() -> None:
    endpoint = Endpoint(config(None), Limits(), path="/chat/completions", headers={})
    assert endpoint.host == "h:81"


@pytest.mark.parametrize(("key", "headers"), [(None, {}), ("k", {"authorization": "Bearer k"})])
def test_a_key_becomes_a_header(key: str | None, headers: dict[str, str]) -> None:
    assert bearer(config(key)) == headers


def test_a_key_that_no_header_can_hold_is_refused_without_naming_it() -> None:
    with pytest.raises(ConfigError, match="not allowed in a header") as caught:
        usable_key(config("two words"))
    assert "two words" not in str(caught.value)


WIRES = {
    "openai": "penstock.models.wires.openai:OpenAIModel",
    "openai-responses": "penstock.models.wires.responses:ResponsesModel",
    "anthropic": "penstock.models.wires.anthropic:AnthropicModel",
}
PRIVATE = "sk-very-secret"


async def refused(wire: str, answer: Canned) -> ModelError:
    """Return the error for an answer of a provider."""
    make: Callable[[ModelConfig, Limits], Model] = late(WIRES[wire])
    async with fake_server(answer) as server:
        named = ModelConfig(
            name="m",
            provider=wire,
            model="m",
            base_url=server.url,
            api_key=PRIVATE,
            key_env="KEY",
        )
        model = make(named, Limits())
        with pytest.raises(ModelError) as caught:
            async for _ in model.stream(ModelRequest(system="", messages=[UserMessage("hi")])):
                pass
        await model.close()
    assert len(server.bodies) == 1
    assert PRIVATE not in str(caught.value)
    return caught.value


def answered(
    wire: str, status: int, kinds: tuple[str, str], message: str, **headers: str
) -> Canned:
    """Return an error in the form of a wire. `kinds` are its words at Anthropic and at OpenAI."""
    of_anthropic, of_openai = kinds
    error: dict[str, Any] = {"message": f"{message} {PRIVATE}", "type": of_anthropic}
    body = {"type": "error", "error": error, "request_id": "req_1"}
    if wire != "anthropic":
        error |= {"type": "x_error", "param": None, "code": of_openai}
        body = {"error": error}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Canned([json.dumps(body).encode()], status, "application/json", named)


INVALID = ("invalid_request_error", "invalid_request_error")
LIMITED = ("rate_limit_error", "rate_limit_exceeded")
FAILED = ("api_error", "server_error")
NO = "No."
ERRORS: list[tuple[int, tuple[str, str], str, type[ModelError], str]] = [
    (400, INVALID, NO, ModelRefused, ""),
    (413, ("request_too_large", "invalid_request_error"), NO, ModelRefused, ""),
    (422, INVALID, NO, ModelRefused, ""),
    (400, INVALID, "prompt is too long: 9 tokens", ContextTooLarge, ""),
    (400, ("x", "context_length_exceeded"), "maximum context length", ContextTooLarge, ""),
    (401, ("authentication_error", "invalid_api_key"), NO, ModelRefused, "check the key in the"),
    (403, ("permission_error", "x"), NO, ModelRefused, "variable KEY, and its rights"),
    (404, ("not_found_error", "model_not_found"), NO, ModelRefused, "check base_url and model"),
    (402, ("billing_error", "insufficient_quota"), NO, ModelRefused, ""),
    (400, INVALID, "Your credit balance is too low", ModelRefused, ""),
    (429, ("billing_error", "insufficient_quota"), NO, ModelRefused, ""),
    (429, LIMITED, NO, ModelUnavailable, ""),
    (408, ("timeout_error", "x"), NO, ModelUnavailable, ""),
    (409, FAILED, NO, ModelUnavailable, ""),
    (500, FAILED, NO, ModelUnavailable, ""),
    (502, FAILED, NO, ModelUnavailable, ""),
    (504, ("timeout_error", "server_error"), NO, ModelUnavailable, ""),
    (529, ("overloaded_error", "server_error"), NO, ModelUnavailable, ""),
]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("status", "kinds", "message", "error", "advice"), ERRORS)
async def test_an_error_of_a_provider_becomes_one_of_ours(
    wire: str,
    status: int,
    kinds: tuple[str, str],
    message: str,
    error: type[ModelError],
    advice: str,
) -> None:
    """Models §4.2."""
    caught = await refused(wire, answered(wire, status, kinds, message))
    assert type(caught) is error
    assert str(caught).startswith("the model 'm' at http://127.0.0.1:")
    assert f"answered {status}: {message} [key]" in str(caught)
    assert advice in str(caught)
    if isinstance(caught, ModelUnavailable):
        assert (caught.is_throttled, caught.retry_after) == (status == 429, None)


LATER, NOW = "Wed, 21 Oct 2026 07:28:07 GMT", "Wed, 21 Oct 2026 07:28:00 GMT"
HEADERS: list[tuple[int, dict[str, str], type[ModelError], float | None]] = [
    (429, {"retry_after": "3"}, ModelUnavailable, 3),
    (429, {"retry_after": "1.5"}, ModelUnavailable, 1.5),
    (429, {"retry_after_ms": "250", "retry_after": "3"}, ModelUnavailable, 0.25),
    (503, {"retry_after": LATER, "date": NOW}, ModelUnavailable, 7),
    (503, {"retry_after": NOW, "date": LATER}, ModelUnavailable, 0),
    (503, {"retry_after": "soon"}, ModelUnavailable, None),
    (429, {"retry_after_ms": "nan"}, ModelUnavailable, None),
    (429, {"retry_after_ms": "-5"}, ModelUnavailable, 0),
    (429, {"retry_after_ms": "inf"}, ModelUnavailable, None),
    (500, {"x_should_retry": "false"}, ModelRefused, None),
    (429, {"x_should_retry": "false"}, ModelRefused, None),
    (400, {"x_should_retry": "true", "retry_after": "2"}, ModelUnavailable, 2),
    (400, {"x_should_retry": "true"}, ModelUnavailable, None),
    (400, {"x_should_retry": "maybe"}, ModelRefused, None),
]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("status", "headers", "error", "seconds"), HEADERS)
async def test_headers_say_whether_and_when_to_try_again(
    wire: str,
    status: int,
    headers: dict[str, str],
    error: type[ModelError],
    seconds: float | None,
) -> None:
    caught = await refused(wire, answered(wire, status, FAILED, NO, **headers))
    assert type(caught) is error
    assert getattr(caught, "retry_after", None) == seconds


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("header", ["request_id", "x_request_id"])
async def test_the_id_of_a_request_is_in_its_error(wire: str, header: str) -> None:
    caught = await refused(wire, answered(wire, 500, FAILED, NO, **{header: "req_7" + "x" * 99}))
    assert "(request req_7xxx" in str(caught)
    assert len(str(caught)) < 300
