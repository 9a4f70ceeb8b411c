"""A mocks file, read."""

from typing import Any

import pytest

from penstock.app.trial.mocks import Mocks, read_mocks
from penstock.core.errors import ConfigError
from penstock.core.state import ScopeKind

TOOLS = ["read_text_file", "send"]
ENTRY = {"value": 1, "revision": "r1"}


def test_every_part_has_its_place() -> None:
    mocks = read_mocks(
        {
            "vault": {"profile": {"k": "s3cret"}, "shared": {"team": {"k": "other"}}},
            "runtime_config": {"url": "u"},
            "state": {"session": {"any": {"a": ENTRY}}, "shared": {"x": {}, "y": {"b": ENTRY}}},
            "state_bindings": [],
            "context": {"who": "me"},
            "tools": {"send": None},
            "fetch": [{"url": "https://example.com"}],
        },
        TOOLS,
    )
    assert mocks == Mocks(
        has_vault=True,
        secrets={"k": "s3cret"},
        shared_secrets={"team": {"k": "other"}},
        runtime_config={"url": "u"},
        state={
            ScopeKind.SESSION: {"any": {"a": ENTRY}},
            ScopeKind.SHARED: {"x": {}, "y": {"b": ENTRY}},
        },
        has_state_bindings=True,
        context={"who": "me"},
        tools={"send": None},
        fetch=[{"url": "https://example.com"}],
    )


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"vaults": {}}, "/vaults: there is no such key. Did you mean 'vault'?"),
        ({"vault": {"sharde": {}}}, "/vault/sharde: there is no such key. Did you mean 'shared'?"),
        ({"tools": {"sent": 1}}, "/tools/sent: there is no such key. Did you mean 'send'?"),
        ({"state": {"global": {}}}, "/state/global: there is no such key."),
        (
            {"state": {"task": {"t": {"k": {**ENTRY, "expires": "x"}}}}},
            "/state/task/t/k/expires: there is no such key.",
        ),
        (
            {"state": {"profile": {"a": {}, "b": {}}}},
            "/state/profile: has 2 scopes; one stands for the local one",
        ),
        (
            {"fetch": [{"url": "https://a.example", "code": 1}]},
            "/fetch/0/code: there is no such key.",
        ),
        (
            {"fetch": [{"url": "http://["}]},
            "/fetch/0/url: is written as https://api.example.com/v1, found 'http://['",
        ),
        (
            {"fetch": [{"url": "api.example.com/v1"}]},
            "/fetch/0/url: is written as https://api.example.com/v1, found 'api.example.com/v1'",
        ),
        ({"fetch": [{}]}, "/fetch/0/url: is required"),
        ({"vault": {"profile": {"k": 5}}}, '/vault/profile/k: 5 is not of type "string"'),
        ({"runtime_config": {"k": None}}, '/runtime_config/k: null is not of type "string"'),
        (
            {"tools": {"send": {"status": "failed", "error": "no"}}},
            '/tools/send/error: "no" is not of type "object"',
        ),
        (
            {"tools": {"send": [1, {"status": "failed", "error": {"code": 5}}]}},
            '/tools/send/1/error/code: 5 is not of type "string"',
        ),
        (
            {"tools": {"send": {"status": "failed", "error": {"mesage": "no"}}}},
            "/tools/send/error/mesage: there is no such key. Did you mean 'message'?",
        ),
        (
            {"state": {"task": {"t": {"k": {**ENTRY, "expires_at": "2030-06-30T23:59:60Z"}}}}},
            (
                "/state/task/t/k/expires_at: is written as 2030-01-31T12:00:00Z, "
                "found '2030-06-30T23:59:60Z'"
            ),
        ),
        ({"context": []}, '/context: [] is not of type "object"'),
        ([], '/: [] is not of type "object"'),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_name(raw: Any, said: str) -> None:
    """An unknown key is an error with the nearest name."""
    with pytest.raises(ConfigError) as found:
        read_mocks(raw, TOOLS)
    assert str(found.value).startswith(f"The mocks cannot be used: {said}")
