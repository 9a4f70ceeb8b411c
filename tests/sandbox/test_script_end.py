"""How a script ended becomes one error of the closed list, whatever the script claims."""

from typing import Any

import pytest

from penstock.core.call_errors import CallError, ToolFailed
from penstock.sandbox.messages import Message
from penstock.sandbox.script import Bounds
from penstock.sandbox.script_end import conclude, crashed
from tests.kit.scripts import script_of

SCRIPT = script_of("")
BOUNDS = Bounds(seconds=1, output_bytes=100)


def ended(kind: str, value: Any = None) -> Any:
    return conclude(Message(kind=kind, number=0, value=value, size=len(str(value))), SCRIPT, BOUNDS)


def error_of(kind: str, value: Any = None) -> CallError:
    with pytest.raises(CallError) as raised:
        ended(kind, value)
    return raised.value


def test_an_output_is_returned() -> None:
    assert ended("done", {"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("value", "fits"), [("x" * 98, True), ("x" * 99, False), ("ä" * 49, True), ("ä" * 50, False)]
)
def test_an_output_is_measured_in_bytes(value: str, fits: bool) -> None:
    assert ended("done", value) == value if fits else error_of("done", value).code


@pytest.mark.parametrize(
    ("kind", "value", "code", "message"),
    [
        ("large", "9", "OUTPUT_TOO_LARGE", "the output has over 100 bytes as JSON"),
        (
            "missing",
            "undefined",
            "SCRIPT_LOAD_ERROR",
            "'main.mjs' must export a function 'run', found undefined",
        ),
        ("fail", {"kind": "thrown", "name": "Error", "message": "no"}, "SCRIPT_ERROR", "no"),
        ("fail", {"kind": "thrown", "message": ""}, "SCRIPT_ERROR", "the script threw an error w"),
        ("fail", {"kind": "flo", "code": "VAULT_DENIED", "message": "no"}, "VAULT_DENIED", "no"),
        ("fail", {"kind": "flo", "code": "CANCELLED", "message": "no"}, "SCRIPT_ERROR", "no"),
        ("fail", {"kind": "tool", "code": "MINE", "message": "no"}, "MINE", "no"),
        ("fail", {"kind": "tool", "code": "CANCELLED", "message": "no"}, "SCRIPT_ERROR", "no"),
        ("fail", {"kind": "tool", "code": "not a code", "message": "no"}, "SCRIPT_ERROR", "no"),
        ("fail", {"kind": "thrown", "code": "MINE", "message": "no"}, "SCRIPT_ERROR", "no"),
        (
            "fail",
            {"kind": "thrown", "name": "InternalError", "message": "out of memory"},
            "OUT_OF_MEMORY",
            "The script needed more memory",
        ),
    ],
)
def test_each_ending_has_its_code(kind: str, value: Any, code: str, message: str) -> None:
    error = error_of(kind, value)
    assert error.code == code
    assert str(error).startswith(message)


@pytest.mark.parametrize(
    "said",
    [
        None,
        5,
        "j",
        [],
        {},
        {"kind": [], "name": {}, "message": [], "code": {}, "stack": 5},
        {"kind": "tool", "code": 5, "message": None},
        {"kind": "thrown", "name": ["InternalError"], "message": "out of memory"},
    ],
)
def test_an_error_of_any_shape_is_one_of_the_script(said: Any) -> None:
    assert error_of("fail", said).code == "SCRIPT_ERROR"


def test_a_tool_error_keeps_what_it_was_made_with() -> None:
    said = {"kind": "tool", "code": "BUSY", "message": "later", "retryable": True}
    error = error_of("fail", said | {"continuable": False, "details": [1]})
    assert isinstance(error, ToolFailed)
    assert (error.retryable, error.continuable, error.details) == (True, False, {"value": [1]})


def test_our_own_frames_are_cut_from_a_stack() -> None:
    """M10: `details.name`, `details.stack`."""
    stack = "    at run (tool:///main.mjs:1:2)\n    at f (flo:guest:3:4)\n    at g (native)\n"
    error = error_of("fail", {"kind": "thrown", "name": "E", "message": "m", "stack": stack})
    assert error.details == {"name": "E", "stack": "    at run (tool:///main.mjs:1:2)"}


def test_a_machine_that_broke_says_so() -> None:
    assert "its stack is used up" in str(crashed("wasm trap: call stack exhausted"))
    assert "broke its sandbox" in str(crashed("wasm trap: unreachable"))
