"""The Python tools of a project."""

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.core.diagnostics import Severity
from penstock.core.errors import Suspend
from penstock.testing.invocation import Workbench, open_workbench
from penstock.tools.python.load import find_files, load_tools

EXAMPLES = Path(__file__).parents[3] / "examples"
GOOD = '''
from penstock import tool

@tool(effect="none", direct_call=True)
def good(n: int) -> int:
    """Return the number."""
    return n
'''


def project(root: Path, **files: str) -> Path:
    (root / "tools").mkdir(parents=True)
    for name, text in files.items():
        (root / "tools" / f"{name}.py").write_text(text)
    return root


def findings(root: Path, **options: Any) -> list[str]:
    return [str(found) for found in load_tools(root, **options).diagnostics]


async def test_a_file_with_a_syntax_error_beside_a_good_one(tmp_path: Path) -> None:
    """One diagnostic with line; the good tool runs."""
    root = project(tmp_path, a_broken="x = 1\ndef f(:\n", b_good=GOOD)
    loaded = load_tools(root)
    (found,) = loaded.diagnostics
    assert (found.code, found.file, found.line) == ("python-import", "tools/a_broken.py", 2)
    assert found.message.startswith("the file cannot be imported: SyntaxError: invalid syntax")
    assert found.suggestion == "Its tools are left out; all others work."
    (good,) = loaded.tools
    assert (await (await open_workbench(good)).call("good", {"n": 3})).output == 3


def test_no_file_of_tools_leads_out_of_the_project(tmp_path: Path) -> None:
    """Links inside of it are fine, and so is a project that is reached through one."""
    root, outside = project(tmp_path / "project", own=GOOD), tmp_path / "out.py"
    outside.write_text(GOOD.replace("good", "bad"))
    (root / "tools" / "leak.py").symlink_to(outside)
    (root / "shared.py").write_text(GOOD.replace("good", "shared"))
    (root / "tools" / "shared.py").symlink_to("../shared.py")
    (tmp_path / "link").symlink_to(root)
    loaded = load_tools(tmp_path / "link")
    assert [each.tool_id for each in loaded.tools] == ["good", "shared"]
    said = '"tools/leak.py" leads out of the project through a symlink; put a copy in its place'
    assert [each.text for each in loaded.diagnostics] == [said]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tools").symlink_to(root / "tools")
    (found,) = load_tools(tmp_path / "other").diagnostics
    assert (found.file, found.code) == ("tools", "path-escape")


def broken() -> dict[str, tuple[str, int, str]]:
    return {
        "import": ("\nimport nowhere_at_all\n", 2, "ModuleNotFoundError: No module named"),
        "raise": ("def f():\n    return 1 // 0\n\nf()\n", 2, "ZeroDivisionError: integer"),
        "exit": ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        "interrupt": ("\nraise KeyboardInterrupt\n", 2, "KeyboardInterrupt"),
        "in a library": ("import json\njson.loads('{')\n", 2, "JSONDecodeError: Expecting"),
        "option": (
            "from penstock import tool\n@tool(efect='none')\ndef f(): ...\n",
            2,
            "TypeError: @tool has no argument 'efect'. Did you mean 'effect'?",
        ),
        "binary": ("x = 1\0\n", 1, "cannot be imported"),
    }


@pytest.mark.parametrize(("text", "line", "message"), broken().values(), ids=broken())
def test_an_import_error_is_reported_at_the_project_s_own_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    loaded = load_tools(project(tmp_path, broken=text))
    (found,) = loaded.diagnostics
    assert (found.code, found.file, found.line) == ("python-import", "tools/broken.py", line)
    assert message in found.message
    assert found.severity is Severity.ERROR
    assert loaded.tools == ()


def test_an_error_in_an_imported_file_is_reported_there(tmp_path: Path) -> None:
    helper = "\n\nTABLE = {}['x']\n"
    root = project(tmp_path, _table=helper, uses="from ._table import TABLE\n")
    (found,) = load_tools(root).diagnostics
    assert (found.file, found.line) == ("tools/_table.py", 3)


@pytest.mark.parametrize(
    ("text", "place", "advice"),
    [
        ("import nowhere_at_all\n", "elsewhere.py", ""),
        ("import prices\n", "tools/prices.py", "It is beside the file: write `from .prices import"),
        ("from prices import X\n", "prices.py", "start penstock with PYTHONPATH=., or move it to "),
        (
            "import prices.deep\n",
            "prices/deep.py",
            "It is in the project's folder, which is not on",
        ),
    ],
)
def test_a_module_off_the_path_is_reported_with_how_to_import_it(
    tmp_path: Path, text: str, place: str, advice: str
) -> None:
    root = project(tmp_path, uses=text)
    (root / place).parent.mkdir(exist_ok=True)
    (root / place).write_text("X = 1\n")
    (found,) = [each for each in load_tools(root).diagnostics if each.code == "python-import"]
    assert found.suggestion is not None
    assert advice in found.suggestion
    assert found.suggestion.endswith("Its tools are left out; all others work.")
    assert bool(advice) == (found.suggestion != "Its tools are left out; all others work.")


def test_files_import_their_neighbours_once(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        _table="RUNS = []\n",
        a="from ._table import RUNS\nRUNS.append('a')\n" + GOOD,
        b="from .a import good\nfrom ._table import RUNS\nRUNS.append('b')\n",
    )
    loaded = load_tools(root)
    assert [found.code for found in loaded.diagnostics] == ["python-no-tools"]
    (good,) = loaded.tools
    assert sys.modules[good.__module__].__dict__["RUNS"] == ["a", "b"]


def test_a_second_load_reads_the_files_again_and_does_not_change_the_first(tmp_path: Path) -> None:
    """Reload builds a new registry; running calls keep theirs."""
    root = project(tmp_path, a=GOOD)
    (before,) = load_tools(root).tools
    (root / "tools" / "a.py").write_text(GOOD.replace("return n", "return n + 100"))
    (after,) = load_tools(root).tools
    assert (before(1), after(1)) == (1, 101)


def test_of_two_tools_of_one_id_the_first_counts(tmp_path: Path) -> None:
    root = project(tmp_path, a=GOOD, b=GOOD)
    loaded = load_tools(root)
    assert len(loaded.tools) == 1
    assert [(found.code, found.file, found.line) for found in loaded.diagnostics] == [
        ("duplicate-tool", "tools/b.py", 5)
    ]


def test_the_names_of_built_in_tools_are_taken(tmp_path: Path) -> None:
    loaded = load_tools(project(tmp_path, a=GOOD), reserved={"good": "a tool of a plugin"})
    assert loaded.tools == ()
    said = "'good' is a tool of a plugin already; give this one another id"
    assert [(each.code, each.message) for each in loaded.diagnostics] == [
        ("builtin-collision", said)
    ]


def test_an_invalid_tool_does_not_keep_out_the_others_of_its_file(tmp_path: Path) -> None:
    text = GOOD + "\n@tool(id='no id')\ndef bad(x, *y: int):\n    pass\n"
    loaded = load_tools(project(tmp_path, a=text))
    assert [tool.tool_id for tool in loaded.tools] == ["good"]
    assert {found.code for found in loaded.diagnostics} == {
        "bad-id",
        "missing-description",
        "python-hint",
        "python-parameter",
    }
    assert {(found.file, found.line) for found in loaded.diagnostics} == {("tools/a.py", 10)}


def test_a_file_without_tools_is_mentioned_and_one_with_a_dash_is_not_read(tmp_path: Path) -> None:
    root = project(tmp_path, plain="x = 1\n", _private="raise ValueError\n")
    assert find_files(root) == [root / "tools" / "plain.py"]
    (found,) = load_tools(root).diagnostics
    assert (found.code, found.severity) == ("python-no-tools", Severity.WARNING)


def test_with_python_off_nothing_runs_and_a_warning_is_reported(tmp_path: Path) -> None:
    (found,) = load_tools(project(tmp_path, a="raise ValueError"), is_on=False).diagnostics
    assert (found.code, found.severity) == ("python-off", Severity.WARNING)
    assert found.message == "1 file is there, but Python tools are off"


@pytest.mark.parametrize("is_on", [True, False])
def test_a_project_without_tools_is_a_project(tmp_path: Path, is_on: bool) -> None:
    assert load_tools(tmp_path, is_on=is_on) == load_tools(project(tmp_path))


async def examples() -> Workbench:
    loaded = load_tools(EXAMPLES)
    assert loaded.diagnostics == ()
    return await open_workbench(*loaded.tools)


@pytest.mark.parametrize(
    ("tool_id", "input", "output"),
    [
        ("add", {"a": 2, "b": 3}, {"sum": 5.0}),
        (
            "weather",
            {"city": "oslo", "unit": "fahrenheit"},
            {"city": "Oslo", "sky": "snow", "temperature": 26.6, "unit": "fahrenheit"},
        ),
        ("slow_report", {"seconds": 1}, {"title": "A report of 1 pages", "pages": 1}),
    ],
)
@pytest.mark.slow(reason="the slow report takes its second")
async def test_the_examples_work(tool_id: str, input: Any, output: Any) -> None:
    assert (await (await examples()).call(tool_id, input)).output == output


async def test_the_example_dice_fall_the_same_for_the_same_call() -> None:
    bench = await examples()
    first = await bench.call("dice", {"count": 3})
    assert len(first.output["rolled"]) == 3
    assert set(first.output["rolled"]) <= set(range(1, 7))


async def test_the_example_that_asks_and_the_one_that_pays() -> None:
    bench = await examples()
    with pytest.raises(Suspend):
        await bench.call("plan_day")
    await bench.answer({"value": "Lisbon"})
    bench.enter()
    assert (await bench.call("plan_day")).output == "Lisbon has clear. Take a walk."
    with pytest.raises(Suspend):
        await bench.call("refund", {"order": "A1", "amount": 5})
    await bench.answer({"decision": "approve"})
    bench.enter()
    envelope = await bench.call("refund", {"order": "A1", "amount": 5})
    assert envelope.output["message"] == "Paid 5 back for A1"


async def test_the_example_suggests_a_known_city() -> None:
    envelope = await (await examples()).call("weather", {"city": "Ohslo"})
    assert envelope.error
    assert (envelope.error.code, envelope.error.suggestion) == ("CITY_UNKNOWN", "Try Oslo.")


def test_ctrl_c_during_an_import_is_not_a_finding(tmp_path: Path) -> None:
    text = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_tools(project(tmp_path, broken=text))
    finally:
        signal.signal(signal.SIGINT, before)


async def test_a_tool_with_a_warning_is_loaded(tmp_path: Path) -> None:
    """What has no effect yet takes no tool away, and hides no mistake in what names tools."""
    text = GOOD.replace("direct_call=True", "direct_call=True, egress=True")
    loaded = load_tools(project(tmp_path, a=text))
    (found,) = map(str, loaded.diagnostics)
    said = "'egress' of tool 'good' is reserved and has no effect yet"
    assert found == f"tools/a.py:5:1: warning reserved-key: {said}"
    assert ([each.tool_id for each in loaded.tools], loaded.is_whole) == (["good"], True)
    assert not load_tools(tmp_path, is_on=False).is_whole
    assert not load_tools(tmp_path, reserved={"good": "a built-in tool"}).is_whole


def test_a_broken_tool_is_listed_with_its_error(tmp_path: Path) -> None:
    """Also every function of a file that cannot be imported: which of them are tools is unknown."""
    half = "from penstock import tool\n\n@tool\ndef half(x) -> None:\n    '''Lack a hint.'''\n"
    gone = "import no_such_module\n\ndef one(): ...\n\nasync def two(): ...\n"
    loaded = load_tools(project(tmp_path, half=half, gone=gone))
    assert loaded.tools == ()
    assert loaded.broken["half"].startswith(
        "tools/half.py:4: tool 'half': the parameter 'x' has no"
    )
    assert loaded.broken["one"] == loaded.broken["two"]
    assert loaded.broken["one"].startswith("tools/gone.py:1: the file cannot be imported: ")
