"""An error is shown where it was made, and not where the last of its arguments was read."""

import pytest

from penstock.core.call_errors import ScriptError
from penstock.sandbox.error_positions import point_at_new
from penstock.sandbox.script import Bounds, Module, Sandbox
from penstock.testing.bridge import FakeBridge
from tests.kit.scripts import script_of


def module(source: str) -> dict[str, Module]:
    return {"a.mjs": Module(name="a.mjs", source=source, imports={})}


@pytest.mark.parametrize(
    ("source", "shown", "name", "wanted"),
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
def test_a_frame_is_moved_to_where_the_error_was_made(
    source: str, shown: str, name: str, wanted: str
) -> None:
    rest = "    at run (tool:///a.mjs:8:1)"
    frames = point_at_new([f"    at f (tool:///a.mjs:{shown})", rest], name, module(source))
    assert frames == [f"    at f (tool:///a.mjs:{wanted})", rest]


def test_the_constructor_of_a_class_of_errors_is_left_out() -> None:
    source = "class Own extends Error {}\nthrow new Own('b' + a.x)"
    frames = ["    at Own (tool:///a.mjs:1:1)", "    at tool:///a.mjs:2:21"]
    assert point_at_new(frames, "Error", module(source)) == ["    at tool:///a.mjs:2:7"]


def test_a_function_that_throws_is_not_left_out() -> None:
    source = "function f() { throw new Error(x.y) }\nf(1)"
    frames = ["    at f (tool:///a.mjs:1:32)", "    at run (tool:///a.mjs:2:1)"]
    wanted = ["    at f (tool:///a.mjs:1:22)", frames[1]]
    assert point_at_new(frames, "Error", module(source)) == wanted


@pytest.mark.parametrize("frame", ["", "    at f (native)", "    at f (tool:///other.mjs:1:1)"])
def test_what_is_not_known_stays_as_it_is(frame: str) -> None:
    assert point_at_new([frame], "Error", module("")) == [frame]


@pytest.mark.parametrize(
    "thrown", ["new RangeError('bad ' + input.x)", "new Own(`bad ${input.x}`)", "new Error('bad')"]
)
async def test_every_engine_shows_the_place_of_the_new(sandbox: Sandbox, thrown: str) -> None:
    source = f"class Own extends Error {{}}\nexport function run(input) {{\n  throw {thrown};\n}}"
    with pytest.raises(ScriptError) as raised:
        await sandbox.run(script_of(source), {"x": 1}, FakeBridge(), Bounds(seconds=5))
    assert raised.value.details
    assert raised.value.details["stack"] == "    at run (tool:///main.mjs:3:9)"
