"""`penstock new`, on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.slow("writes files, and starts what they say")


@pytest.fixture(autouse=True)
def _cache(machine_code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(machine_code))


def test_existing_files_are_not_overwritten(run: Run, project: Path) -> None:
    """Never overwrites."""
    (project / "tools/wave.mts").write_text("mine")
    code, _, err = run("new", "tool", "wave")
    assert code == 1
    assert "tools/wave.mts would be overwritten, so nothing was written." in err
    assert not (project / "tools/wave.tool.yaml").exists()
    assert (project / "tools/wave.mts").read_text() == "mine"


@pytest.mark.parametrize("name", ["hello", "read_dir"])
def test_a_taken_id_is_refused(run: Run, name: str) -> None:
    code, _, err = run("new", "tool", name)
    assert (code, err) == (
        1,
        f"Error: the tool {name!r} already exists, so nothing was written\n",
    )


@pytest.mark.parametrize("name", ["../up", "a b", "1st", "mcp__x", "x" * 59])
def test_an_invalid_id_is_wrong_usage(run: Run, name: str) -> None:
    assert run("new", "skill", name)[0] == 2


def test_handwritten_types_are_kept(run: Run, project: Path) -> None:
    (project / "tools/flo.d.ts").write_text("declare const flo: any;\n")
    code, _, err = run("new", "tool", "wave")
    assert (code, "was not written by `penstock types`" in err) == (0, True)
    assert (project / "tools/flo.d.ts").read_text() == "declare const flo: any;\n"


@pytest.mark.parametrize(("length", "code"), [(64, 0), (65, 2)])
def test_a_tool_has_a_name_of_at_most_64_letters(run: Run, length: int, code: int) -> None:
    assert run("new", "tool", "x" * length)[0] == code


def test_existing_types_are_updated_with_the_new_tool(run: Run) -> None:
    run("new", "tool", "first")
    assert "tools/flo.d.ts" in run("new", "skill", "greeter")[1]
    assert run("types", "--check")[0] == 0


def test_the_written_files_are_one_json_value(run: Run) -> None:
    """`--json` everywhere: one JSON value on stdout."""
    for noun, tool in (("tool", "wave"), ("skill", "greeter_greet")):
        name = tool.removesuffix("_greet")
        loads = json.loads(run("new", noun, name, "--json")[1])
        assert loads["tool"] == tool
        assert {each.rpartition("/")[2] for each in loads["files"]} >= {f"{name}.mts", "flo.d.ts"}
