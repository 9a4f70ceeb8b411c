"""The options of `@tool`."""

from typing import Any

import pytest

from penstock.core.call import ONCE
from penstock.core.diagnostics import Severity
from penstock.core.errors import DeclarationError
from penstock.tools.python.function import FunctionTool, tool
from penstock.tools.python.options import Options, Retry, retry_policy


def with_options(**options: Any) -> FunctionTool[object, [], None]:
    """Return a tool with these options, whatever they are."""

    @tool(**options)
    def f() -> None:
        """Do it."""

    return f


def bad_options() -> dict[str, tuple[Options, str, str]]:
    return {
        "id": ({"id": "no spaces"}, "bad-id", "'no spaces' is not a tool id; expected [A-Za-z_]"),
        "description": ({"description": " "}, "missing-description", "write a docstring"),
        "long": ({"description": "x" * 4097}, "bad-value", "over 4096 characters"),
        "effect": ({"effect": "reed"}, "bad-value", "'effect' of tool 'f' must be one of none"),  # type: ignore[typeddict-item]
        "timeout": ({"timeout": 0}, "bad-value", "a number up to 3600 seconds, not 0"),
        "retry": ({"retry": Retry(attempts=0)}, "bad-value", "a Retry of 1 to 10 attempts"),
        "approval": ({"requires_approval": {"if": {}}}, "bad-value", "True, False or {'when'"),
        "when": ({"requires_approval": {"when": {"type": "x"}}}, "bad-value", "{'when': schema}"),
        "permissions": ({"requires_permissions": "admin"}, "bad-value", "a list of permissions"),
        "labels": ({"labels": [""]}, "bad-value", "a list of texts, not ['']"),
        "key": ({"exclusive": ""}, "bad-value", "True, False, a key or a function"),
        "schema": ({"output_schema": {"type": 1}}, "bad-value", "a JSON Schema, or None"),
        "state": ({"state": "a/b"}, "bad-value", "a name that matches"),
        "trust": ({"trust": "maybe"}, "bad-value", "one of off, ask, deny, or None, not 'maybe'"),  # type: ignore[typeddict-item]
    }


STRANGE: dict[str, list[Any]] = {
    "id": [5, None],
    "description": [5, None],
    "effect": [["read"], None],
    "idempotent": ["yes", 1],
    "requires_approval": [None, "yes", {"when": 1}, {"when": None}],
    "direct_call": ["yes"],
    "requires_permissions": [None, 5, [5]],
    "labels": [None, 5],
    "timeout": ["5", True, float("nan"), -1, 3601],
    "retry": [
        3,
        Retry(attempts="3"),  # type: ignore[arg-type]
        Retry(attempts=11),
        Retry(initial=-1),
        Retry(initial=601),
        Retry(maximum=-1),
        Retry(maximum=601),
        Retry(multiplier=0),
        Retry(multiplier=601),
    ],
    "exclusive": [None, 5],
    "input_schema": ["text", 5, None, {"type": "array"}],
    "state": ["", 5, None, "a:b", "a" * 65],
    "output_schema": ["text", 5, {"$ref": "http://127.0.0.1:1/x"}],
    "egress": [["api.example.com"], None],
    "trust": [True],
    "trusted_source": ["docs.example.com"],
}


@pytest.mark.parametrize(("options", "code", "message"), bad_options().values(), ids=bad_options())
def test_an_invalid_option_is_a_finding(options: Options, code: str, message: str) -> None:
    f = with_options(**options)
    (found,) = f.check()
    assert found.code == code
    assert message in found.message
    assert found.line == f.__wrapped__.__code__.co_firstlineno + 1
    with pytest.raises(DeclarationError, match=code):
        _ = f.spec


@pytest.mark.parametrize("name", STRANGE)
def test_a_value_of_a_strange_type_is_a_finding_and_no_crash(name: str) -> None:
    for value in STRANGE[name]:
        assert {each.code for each in with_options(**{name: value}).check()} & {
            "bad-value",
            "bad-id",
        }, value


@pytest.mark.parametrize(
    "option",
    [
        {"retry": Retry(attempts=1, initial=0, maximum=0, multiplier=1)},
        {"retry": Retry(attempts=10, initial=600, maximum=600, multiplier=600)},
        {"timeout": 0.001},
        {"timeout": 3600},
        {"description": "x" * 4096},
        {"labels": []},
        {"requires_permissions": []},
    ],
    ids=str,
)
def test_the_smallest_and_the_largest_value_are_accepted(option: dict[str, Any]) -> None:
    assert with_options(**option).check() == []


@pytest.mark.parametrize(
    "option", [{"egress": True}, {"trust": "ask"}, {"trust": "off"}, {"trusted_source": True}]
)
def test_an_option_without_effect_is_accepted_with_a_warning(option: dict[str, Any]) -> None:
    """`egress`, `trust`, `trusted_source`; False, None, False: as `reserved-key` of a manifest."""
    f, (name,) = with_options(**option), option
    (found,) = f.check()
    assert (found.severity, found.code) == (Severity.WARNING, "reserved-key")
    assert found.message == f"{name!r} of tool 'f' is reserved and has no effect yet"
    assert f.spec.tool_id == "f"


def test_the_defaults_of_options_without_effect_warn_of_nothing() -> None:
    assert with_options(egress=False, trust=None, trusted_source=False).check() == []


def test_without_retries_there_is_one_attempt() -> None:
    assert retry_policy(None) == ONCE
    assert retry_policy(Retry()).max_attempts == 3
