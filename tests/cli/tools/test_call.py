"""`penstock call`."""

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.builtins import SKILLS

Run = Callable[..., tuple[int, str, str]]


def test_an_outcome_is_printed_for_people_and_for_programs(run: Run) -> None:
    assert run("call", "hello", "name=Ann") == (0, '{\n  "greeting": "Hello, Ann!"\n}\n', "")
    code, out, _ = run("call", "hello", "name=Ann", "--json")
    assert (code, json.loads(out)["status"]) == (0, "success")


def test_a_text_stays_a_text_if_the_tool_declares_one(run: Run) -> None:
    assert "Hello, 3!" in run("call", "hello", "name=3")[1]


def test_an_input_can_be_json_a_file_or_stdin(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "input.json").write_text('{"name": "File"}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"name": "Pipe"}'))
    values = [
        run("call", "hello", "--input", argument)[1]
        for argument in ('{"name": "Json"}', f"@{tmp_path}/input.json", "-")
    ]
    assert [json.loads(each)["greeting"] for each in values] == [
        "Hello, Json!",
        "Hello, File!",
        "Hello, Pipe!",
    ]


WRONG = [
    (("name",), 2, "an input has the form KEY=VALUE, found 'name'"),
    (("--input", "{"), 2, "--input must be JSON: "),
    (("--input", "[]"), 2, "--input must be a JSON object, found array"),
    (("--input", "@missing.json"), 2, "--input cannot read missing.json: "),
    ((), 3, ""),
    (("name=Ann", "more=1"), 3, ""),
]


@pytest.mark.parametrize(("arguments", "code", "message"), WRONG)
def test_wrong_usage_is_two_and_a_wrong_input_is_three(
    run: Run, arguments: tuple[str, ...], code: int, message: str
) -> None:
    """Spec: "Exit codes: 0 fine, 1 … failed or timed out, 2 wrong usage, 3 `validation_error`"."""
    ended, _, err = run("call", "hello", *arguments)
    assert ended == code
    assert message in err


def test_an_unknown_tool_is_a_failed_call_with_the_nearest_name(run: Run) -> None:
    code, out, err = run("call", "helo", "name=Ann")
    assert code == 1
    assert out.startswith("failed: TOOL_NOT_FOUND: ")
    assert "'hello'" in out
    assert err == "Run `penstock tools list --direct` to see the tools that you can call.\n"


def test_skills_can_be_selected_for_the_call(run: Run) -> None:
    code, _, err = run("call", "hello", "name=Ann", "--skill", "no_such_skill")
    assert (code, "no skill 'no_such_skill'" in err) == (2, True)
    known = next(iter(SKILLS))
    assert run("call", "hello", "name=Ann", "--skill", known, "--skill", known)[0] == 0


MORE = """
from penstock import tool

@tool(effect="none")
def closed() -> str:
    '''Say no.'''
    return "no"

@tool(effect="none", direct_call=True)
def tagged(tags: list[str], size: int = 1) -> str:
    '''Join them.'''
    return "+".join(tags)

@tool(effect="none", direct_call=True)
def bad() -> str:
    '''Fail.'''
    raise ValueError("bad\\ud800 thing")
"""


@pytest.fixture
def more(project: Path) -> None:
    """Add tools to the project that do not allow direct calls."""
    (project / "tools" / "more.py").write_text(MORE)
    (project / "tools" / "broken.tool.yaml").write_text(BROKEN)


BROKEN = "name: broken\ndescription: Is broken.\ndirect_call: perhaps\n"
CLOSED = {
    "closed": "give it @tool(direct_call=True); to try it, use `penstock run-tool`",
    "read_text_file": "it is built in; `penstock tools grants read_text_file` shows",
    "broken": "first fix its errors; `penstock check` shows them",
}


@pytest.mark.usefixtures("more")
@pytest.mark.parametrize(("tool", "message"), CLOSED.items())
def test_a_tool_without_direct_calls_is_reported_with_a_fix(
    run: Run, tool: str, message: str
) -> None:
    code, out, _ = run("call", tool, "x=1")
    assert code == 1
    assert out.startswith(f"failed: TOOL_NOT_FOUND: the tool {tool!r} does not allow direct calls")
    assert message in out
    assert out.count("\n") == 1


@pytest.mark.usefixtures("more")
def test_a_lone_surrogate_in_an_error_is_printed_as_a_replacement(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """Spec: "lone surrogates become U+FFFD"."""
    caplog.set_level(logging.CRITICAL, logger="penstock")
    assert run("call", "bad")[:2] == (1, "failed: TOOL_FAILED: ValueError: bad\ufffd thing\n")
    assert json.loads(run("call", "bad", "--json")[1])["error"]["message"].endswith("\ufffd thing")


PAIRS = [
    (("tagged", "tags=a", "tags=b"), 0, "a+b"),
    (("tagged", "tags=a"), 0, "a"),
    (("tagged", 'tags=["a","b"]'), 0, "a+b"),
    (("hello", "name=1", "name=2"), 3, "/name: is given twice"),
    (("tagged", "tags=a", "size=big"), 3, '/size: "big" is not an integer'),
]


@pytest.mark.usefixtures("more")
@pytest.mark.parametrize(("arguments", "code", "message"), PAIRS)
def test_a_member_is_given_once_and_a_list_member_repeatedly(
    run: Run, arguments: tuple[str, ...], code: int, message: str
) -> None:
    ended, out, _ = run("call", *arguments)
    assert (ended, message in out) == (code, True)


TELLS = """
from penstock import ToolContext, tool


@tool(direct_call=True)
async def tells(*, ctx: ToolContext) -> str:
    "Tells how far it is."
    ctx.progress(1, 2, "half")
    ctx.emit("order.late", "one day", {"day": 1}, level="warning")
    return "done"
"""


def test_events_of_a_call_are_shown_before_its_outcome(run: Run, project: Path) -> None:
    (project / "tools/tells.py").write_text(TELLS)
    code, out, err = run("call", "tells")
    assert (code, out) == (0, "done\n")
    assert err.splitlines() == [
        '[info] progress · half · {"done": 1, "total": 2}',
        '[warning] order.late · one day · {"day": 1}',
    ]
    assert json.loads(run("call", "tells", "--json")[1])["status"] == "success"


def test_events_of_a_call_are_shown_in_a_chat(run: Run, project: Path) -> None:
    (project / "tools/tells.py").write_text(TELLS)
    lines = run("chat", "/call tells")[1].splitlines()
    assert '[warning] order.late · one day · {"day": 1}' in lines
    notes = [
        each
        for each in map(json.loads, run("chat", "/call tells", "--json")[1].splitlines())
        if each["type"] == "note"
    ]
    assert [each["event"] for each in notes] == ["progress", "order.late"]
    assert notes[1] == {
        "type": "note",
        "event": "order.late",
        "level": "warning",
        "toolName": "tells",
        "message": "one day",
        "payload": {"day": 1},
    }
