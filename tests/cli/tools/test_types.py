"""`penstock types`, on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.manifests import tool, write

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def scripts(project: Path) -> Path:
    """A project with manifests in two folders."""
    return write(project, {"a/a.tool.yaml": tool(), "b/b.tool.yaml": tool(name="b")})


def test_each_folder_with_manifests_gets_its_file(run: Run, scripts: Path) -> None:
    code, out, err = run("types")
    assert (code, err) == (0, "2 of 2 files written\n")
    assert out.split() == [str(scripts / "a/flo.d.ts"), str(scripts / "b/flo.d.ts")]
    text = (scripts / "a/flo.d.ts").read_text()
    assert "\n  read_text_file: {\n" in text
    assert "\n  hello: {\n" in text
    assert run("types") == (0, "", "0 of 2 files written\n")


def test_check_reports_stale_files_and_writes_nothing(run: Run, scripts: Path) -> None:
    """`--check`: writes nothing, exit 1 when a file is stale."""
    code, out, err = run("types", "--check")
    assert (code, out.count("flo.d.ts")) == (1, 2)
    assert err == "2 of 2 files stale; run `penstock types` to write them\n"
    assert not (scripts / "a/flo.d.ts").exists()
    run("types")
    assert run("types", "--check")[0] == 0
    write(scripts, {"b/b.tool.yaml": tool("direct_call: true", name="b")})
    assert run("types", "--check")[0] == 1


def test_one_file_can_have_all_types(run: Run, scripts: Path) -> None:
    """Or one file with `--out`."""
    write(scripts, {"a/s.skill.yaml": "skill_id: s\nname: S\ndescription: D.\ninstruction: I.\n"})
    code, out, _ = run("types", "--out", str(scripts / "all.d.ts"), "--json")
    assert code == 0
    assert json.loads(out) == {"files": [{"path": str(scripts / "all.d.ts"), "stale": True}]}
    assert not (scripts / "a/flo.d.ts").exists()


def test_a_handwritten_file_is_not_overwritten(run: Run, scripts: Path) -> None:
    write(scripts, {"a/flo.d.ts": "declare const flo: any;\n"})
    code, _, err = run("types")
    assert code == 1
    assert "was not written by `penstock types`: nothing was written there." in err
    assert (scripts / "a/flo.d.ts").read_text() == "declare const flo: any;\n"
