"""The address of a model, and the key that is sent to it."""

import pytest

from penstock.core.errors import ConfigError
from penstock.core.limits import Limits
from penstock.models.providers import ModelConfig
from penstock.models.wires.http import Endpoint, bearer, usable_key


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
