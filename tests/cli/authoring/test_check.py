"""`penstock check`: every finding of a project."""

import importlib.metadata
import json
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.authoring.check import annotation, changes, checks_after_changes
from penstock.cli.main import main
from penstock.core.diagnostics import Diagnostic
from tests.kit.manifests import TOOL, skill, tool, write

Run = Callable[..., tuple[int, str, str]]
NEAR = '"a.tool.yml" looks like a manifest but is not read; rename it to "a.tool.yaml"'


def test_a_project_without_errors_passes(run: Run) -> None:
    assert run("check") == (0, "1 tool, 0 skills, 0 flows, 0 errors, 0 warnings\n", "")


def test_every_finding_is_a_line_before_a_line_of_counts(run: Run, project: Path) -> None:
    """Then `{n} tools, {m} skills, … {e} errors, {w} warnings`; exit code 1: errors found."""
    files = {"b.tool.yaml": tool("timeout: 5"), "s.skill.yaml": skill(), "a.tool.yml": ""}
    write(project, {**files, "agents/x.md": "name: x", "tools/y.py": "1 +"})
    code, out, _ = run("check")
    assert code == 1
    assert out.splitlines() == [
        f"a.tool.yml:1:1: warning near-miss-name: {NEAR}",
        (
            "agents/x.md:1:1: error no-front-matter: no front matter: the file must begin with a "
            'line "---"'
        ),
        (
            'b.tool.yaml:5:1: error unknown-key: unknown key "timeout" in a tool manifest; '
            'did you mean "timeout_ms"?'
        ),
        (
            "tools/y.py:1:1: error python-import: the file cannot be imported: SyntaxError: "
            "invalid syntax (y.py, line 1); Its tools are left out; all others work."
        ),
        "2 tools, 1 skill, 0 flows, 3 errors, 1 warning",
    ]


def test_strict_treats_warnings_as_errors(run: Run, project: Path) -> None:
    """`--strict`: warnings count."""
    write(project, {"a.tool.yml": ""})
    assert (run("check")[0], run("check", "--strict")[0]) == (0, 1)


def test_programs_read_one_json_value(run: Run, project: Path) -> None:
    """JSON: `{problems: [...], tools, skills, errors, warnings}`."""
    write(project, {"a.tool.yml": ""})
    code, out, err = run("check", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "problems": [
            {
                "file": "a.tool.yml",
                "line": 1,
                "column": 1,
                "end_line": 1,
                "end_column": 2,
                "severity": "warning",
                "code": "near-miss-name",
                "message": NEAR,
                "suggestion": None,
            }
        ],
        "tools": 1,
        "skills": 0,
        "flows": 0,
        "errors": 0,
        "warnings": 1,
    }


def test_a_finding_is_an_annotation_on_github(run: Run, project: Path) -> None:
    write(project, {"b.tool.yaml": tool("labels: 5")})
    code, out, _ = run("check", "--github")
    assert code == 1
    assert out.splitlines()[0] == (
        "::error file=b.tool.yaml,line=5,col=9,endLine=5,endColumn=10,title=wrong-type::"
        '"labels" must be a list of strings, found number 5'
    )


def test_an_annotation_stays_on_its_line() -> None:
    diagnostic = Diagnostic(code="x", message="a\nb 100%: c, d", file="a,b:c.md")
    assert annotation(diagnostic) == (
        "::error file=a%2Cb%3Ac.md,line=1,col=1,endLine=1,endColumn=2,title=x::a%0Ab 100%25: c, d"
    )


def test_flows_and_agents_are_checked(run: Run, project: Path) -> None:
    """`penstock flow check` is also part of `penstock check`."""
    text = "name: x\ndescription: d\nsteps:\n  - {id: a, agent: missing}\n"
    agent = "---\nname: scout\ndescription: d\ntools: raed\n---\nYou look.\n"
    write(project, {"flows/x.yaml": text, "flows/a b.yaml": text, "agents/scout.md": agent})
    code, out, _ = run("check")
    *problems, last = out.splitlines()
    assert code == 1
    assert [each.split(": ")[0] for each in problems] == [
        "agents/scout.md:4:1",
        "flows/a b.yaml:1:1",
        "flows/x.yaml:4:13",
    ]
    assert last == "1 tool, 0 skills, 1 flow, 3 errors, 0 warnings"


def test_check_accepts_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Needs no keys, no network, no database."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"p/a.tool.yaml": TOOL, "p/penstock.toml": '[models.a]\nprovider = "openai"\n'})
    assert main(["check", "p"]) == 0
    assert capsys.readouterr().out == "1 tool, 0 skills, 0 flows, 0 errors, 0 warnings\n"
    assert not (tmp_path / "p" / ".penstock").exists()


def test_a_changed_file_is_checked_again(tmp_path: Path) -> None:
    deeds: list[Callable[[], Any]] = [
        lambda: None,
        lambda: write(tmp_path, {"a.tool.yaml": "1"}),
        lambda: None,
        lambda: write(tmp_path, {"a.tool.yaml": "22"}),
        (tmp_path / "a.tool.yaml").unlink,
    ]
    left = iter(deeds)

    def act() -> None:
        next(left)()

    assert len(list(islice(changes(tmp_path, act), 3))) == 3
    assert next(left, None) is None


def test_the_output_of_check_is_not_a_change_of_the_project(tmp_path: Path) -> None:
    """`penstock check --watch > found.txt` in the project."""
    with (tmp_path / "found.txt").open("w") as output:

        def tell() -> None:
            output.write("0 errors\n")
            output.flush()

        deeds = iter([tell, tell, (tmp_path / "a.tool.yaml").touch, tell])

        def act() -> None:
            next(deeds)()

        assert next(changes(tmp_path, act, [output.fileno()])) is None
        assert len(list(deeds)) == 1


def test_watching_survives_wrong_settings_and_ends_with_ctrl_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = iter(["x = 1", "", "# more"])

    def act() -> None:
        text = next(texts, None)
        if text is None:
            raise KeyboardInterrupt
        write(tmp_path, {"penstock.toml": text, "a.tool.yaml": TOOL})

    assert [each.tools for each in checks_after_changes(tmp_path, act)] == [1, 1]
    assert "x is not a setting" in capsys.readouterr().err


def no_version(package: str) -> str:
    raise importlib.metadata.PackageNotFoundError(package)


def test_a_project_can_be_checked_for_another_engine(
    run: Run, project: Path, machine_code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check --engine`: overrides for that command."""
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(machine_code))
    monkeypatch.setattr("importlib.metadata.version", no_version)
    write(project, {"a.tool.yaml": tool()})
    missing = (
        "a.tool.yaml:4:36: warning engine-missing: the tool cannot run here: the engine deno is "
        "not installed: pip install 'penstock[deno]'"
    )
    assert run("check")[1].splitlines()[:-1] == []
    assert run("check", "--engine", "deno")[1].splitlines()[:-1] == [missing]
    write(project, {"a.tool.yaml": tool().replace("{type: script", "{engine: deno, type: script")})
    assert "engine-missing" in run("check")[1]
    assert "engine-missing" not in run("check", "--engine", "wasm")[1]


def test_a_missing_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it: exit 2 and the name of the extra."""
    monkeypatch.delitem(sys.modules, "penstock.app.script_types.type_check", raising=False)
    monkeypatch.setitem(sys.modules, "deno", None)
    code, out, err = run("check", "--types")
    assert (code, out) == (2, "")
    assert err.endswith("pip install 'penstock[deno]'\n")


def test_columns_can_be_counted_in_utf16_units(run: Run, project: Path) -> None:
    """Spec: "columns count code points; `--utf16` for editors that count units"."""
    write(project, {"b.tool.yaml": tool('requires_approval: {"😀": 1}')})
    values = [json.loads(run("check", "--json", *more)[1]) for more in ([], ["--utf16"])]
    (points,), (units,) = ([p for p in each["problems"] if "😀" in p["message"]] for each in values)
    assert (points["column"], units["column"]) == (21, 21)
    assert units["end_column"] == points["end_column"] + 1
