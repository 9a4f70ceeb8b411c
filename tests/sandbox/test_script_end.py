"""How a script ends: its output, its error, and the position of that error in its source."""

from typing import Any

import pytest

from penstock.core.call_errors import CallError, ScriptError, ToolFailed
from penstock.sandbox.messages import Message
from penstock.sandbox.script import Bounds, Module, Sandbox
from penstock.sandbox.script_end import conclude, crashed, point_at_new
from penstock.testing.bridge import FakeBridge
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
    "message",
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
def test_a_thrown_value_of_any_shape_becomes_an_error(message: Any) -> None:
    assert error_of("fail", message).code == "SCRIPT_ERROR"


def test_a_tool_error_keeps_its_members() -> None:
    message = {"kind": "tool", "code": "BUSY", "message": "later", "retryable": True}
    error = error_of("fail", message | {"continuable": False, "details": [1]})
    assert isinstance(error, ToolFailed)
    assert (error.retryable, error.continuable, error.details) == (True, False, {"value": [1]})


def test_frames_of_the_guest_sources_are_removed() -> None:
    """M10: `details.name`, `details.stack`."""
    stack = "    at run (tool:///main.mjs:1:2)\n    at f (flo:guest:3:4)\n    at g (native)\n"
    error = error_of("fail", {"kind": "thrown", "name": "E", "message": "m", "stack": stack})
    assert error.details == {"name": "E", "stack": "    at run (tool:///main.mjs:1:2)"}


def test_a_broken_machine_is_reported() -> None:
    assert "its stack is used up" in str(crashed("wasm trap: call stack exhausted"))
    assert "broke its sandbox" in str(crashed("wasm trap: unreachable"))


def module(source: str) -> dict[str, Module]:
    return {"a.mjs": Module(name="a.mjs", source=source, imports={})}


@pytest.mark.parametrize(
    ("source", "shown", "name", "expected"),
    [
        ('throw new RangeError("bad " + a.x)', "1:31", "RangeError", "1:7"),
        ('throw new RangeError("bad")', "1:11", "RangeError", "1:7"),
        ('throw RangeError("bad" + a.x)', "1:26", "RangeError", "1:7"),
        ('f(1);\n\n  throw new RangeError(\n    "b",\n    a.x)', "5:5", "RangeError", "3:9"),
        ('throw new RangeError("(" + f(a.x) + ")" + b.y)', "1:43", "RangeError", "1:7"),
        ("throw new lib.RangeError(`${a.x}`)", "1:29", "RangeError", "1:7"),
        ('throw new RangeError("bad " + a.x)', "1:7", "RangeError", "1:7"),
        ('throw new RangeError("bad " + a.x)', "1:31", "TypeError", "1:31"),
        ("f(a.x)", "1:3", "TypeError", "1:3"),
        ("f(a.x)", "9:3", "TypeError", "9:3"),
        ("", "1:1", "", "1:1"),
    ],
)
def test_a_frame_points_at_the_new_of_its_error(
    source: str, shown: str, name: str, expected: str
) -> None:
    rest = "    at run (tool:///a.mjs:8:1)"
    frames = point_at_new([f"    at f (tool:///a.mjs:{shown})", rest], name, module(source))
    assert frames == [f"    at f (tool:///a.mjs:{expected})", rest]


def test_the_frame_of_an_error_constructor_is_skipped() -> None:
    source = "class Own extends Error {}\nthrow new Own('b' + a.x)"
    frames = ["    at Own (tool:///a.mjs:1:1)", "    at tool:///a.mjs:2:21"]
    assert point_at_new(frames, "Error", module(source)) == ["    at tool:///a.mjs:2:7"]


def test_the_frame_of_a_throwing_function_is_kept() -> None:
    source = "function f() { throw new Error(x.y) }\nf(1)"
    frames = ["    at f (tool:///a.mjs:1:32)", "    at run (tool:///a.mjs:2:1)"]
    expected = ["    at f (tool:///a.mjs:1:22)", frames[1]]
    assert point_at_new(frames, "Error", module(source)) == expected


@pytest.mark.parametrize("frame", ["", "    at f (native)", "    at f (tool:///other.mjs:1:1)"])
def test_an_unknown_frame_stays_unchanged(frame: str) -> None:
    assert point_at_new([frame], "Error", module("")) == [frame]


@pytest.mark.parametrize(
    "thrown", ["new RangeError('bad ' + input.x)", "new Own(`bad ${input.x}`)", "new Error('bad')"]
)
async def test_every_engine_reports_the_position_of_the_new(sandbox: Sandbox, thrown: str) -> None:
    source = f"class Own extends Error {{}}\nexport function run(input) {{\n  throw {thrown};\n}}"
    with pytest.raises(ScriptError) as raised:
        await sandbox.run(script_of(source), {"x": 1}, FakeBridge(), Bounds(seconds=5))
    assert raised.value.details
    assert raised.value.details["stack"] == "    at run (tool:///main.mjs:3:9)"
