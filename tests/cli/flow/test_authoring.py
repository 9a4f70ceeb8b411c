"""`penstock flow check` and `penstock flow generate`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.flow_server import ASKS, LOOK, laid
from tests.kit.flows import HEAD

pytestmark = pytest.mark.slow("opens a store for each command")
Run = Callable[..., tuple[int, str, str]]
BROKEN = LOOK.replace("scout", "scuot")
BAD_AGENT = "---\nname: scout\ndescription: d\ntools: raed\n---\n"
BAD_BOOK = "# Docs\n\nfiles:\n- gone.md\n"


@pytest.fixture
def flows(project: Path) -> Path:
    """The project, with agents and flows."""
    return laid(project, {"look.yaml": LOOK, "dom/asks.yaml": ASKS, "broken.yaml": BROKEN})


def test_all_or_some_flows_are_checked(flows: Path, run: Run, run_json: Callable[..., Any]) -> None:
    """`penstock flow check [PATH…] [--strict]`."""
    code, out, _ = run("flow", "check")
    assert code == 1
    assert out.splitlines()[-1].endswith(" flows, 1 error, 0 warnings")
    for name in ("look", "/dom:asks", "flows/look.yaml", "./flows/dom/asks.yaml"):
        assert run("flow", "check", name) == (0, "1 flow, 0 errors, 0 warnings\n", "")
    result = run_json("flow", "check", "look")
    assert result == {"problems": [], "flows": 1, "errors": 0, "warnings": 0}


def test_flows_are_dry_run(flows: Path, run: Run, run_json: Callable[..., Any]) -> None:
    """`penstock flow check --dry-run [NAME…]`."""
    assert run("flow", "check", "--dry-run", "dom:asks") == (
        0,
        (
            "/dom:asks: 2 dry runs, 4 starts, 3 steps reached, 2 of 2 branches taken\n"
            "1 flow, 0 errors, 0 warnings\n"
        ),
        "",
    )
    result = run_json("flow", "check", "look", "--dry-run")
    assert [each["flow"] for each in result["dryRuns"]] == ["look"]
    code, out, _ = run("flow", "check", "broken", "--dry-run")
    assert (code, "dry runs" in out) == (1, False)


def test_a_flow_whose_path_is_that_of_a_built_in_one_is_checked(flows: Path, run: Run) -> None:
    """`penstock flow check [PATH…]`: what comes with the program may lie at the same path."""
    laid(flows, {"edit.yaml": BROKEN})
    for names in ((), ("flows/edit.yaml",), ("flows",)):
        code, out, _ = run("flow", "check", *names)
        assert (code, "flows/edit.yaml:" in out) == (1, True), out
    assert run("flow", "show", "flows/edit.yaml")[1].startswith(BROKEN)


def test_strict_treats_warnings_as_errors(flows: Path, run: Run) -> None:
    laid(flows, {"odd.yaml": LOOK + "more: 1\n"})
    assert (run("flow", "check", "odd")[0], run("flow", "check", "odd", "--strict")[0]) == (0, 1)


def test_agents_are_checked_with_the_flows(flows: Path, run: Run) -> None:
    """§16 for flows, agents and handbooks."""
    (flows / "agents/scout.md").write_text("---\nname: scout\ndescription: d\ntools: raed\n---\n")
    code, out, _ = run("flow", "check")
    assert code == 1
    assert out.startswith("agents/scout.md:4:1: error unknown-tool")


def test_handbooks_are_checked_with_the_flows(flows: Path, run: Run) -> None:
    """§16 for flows, agents and handbooks."""
    (flows / "handbooks/docs").mkdir(parents=True)
    (flows / "handbooks/docs/SKILL.md").write_text("# Docs\n\nfiles:\n- gone.md\n")
    text = 'handbooks/docs/SKILL.md:4:3: warning handbook-file: file "gone.md" is listed but'
    for command in (("flow", "check"), ("check",)):
        assert any(line.startswith(text) for line in run(*command)[1].splitlines())


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("agents/bad.md", ["unknown-tool"]),
        ("agents", ["unknown-tool"]),
        ("agents/judge.md", []),
        ("handbooks/docs", ["handbook-file"]),
        ("handbooks/docs/SKILL.md", ["handbook-file"]),
        ("flows/a b.yaml", ["bad-command-name", "unknown-agent"]),
        ("flows/look.yml", ["unknown-agent"]),
        ("lib/sub.yaml", ["unknown-agent"]),
        (".pi/flows/config.yaml", ["wrong-type"]),
        ("flows", ["bad-command-name", "hidden", "unknown-agent"]),
    ],
)
def test_agents_handbooks_and_any_flow_can_be_named(
    flows: Path, run: Run, name: str, codes: list[str]
) -> None:
    """`penstock flow check [PATH…]`: "§16 for flows, agents and handbooks"."""
    texts = {
        "agents/bad.md": BAD_AGENT.replace("scout", "bad"),
        "handbooks/docs/SKILL.md": BAD_BOOK,
        "flows/a b.yaml": BROKEN,
        "flows/look.yml": BROKEN,
        "lib/sub.yaml": BROKEN,
        ".pi/flows/config.yaml": "more: [1]\n",
    }
    for path, text in texts.items():
        (flows / path).parent.mkdir(parents=True, exist_ok=True)
        (flows / path).write_text(text)
    for each in (name, str(flows / name)):
        problems = json.loads(run("flow", "check", each, "--json")[1])["problems"]
        assert sorted({one["code"] for one in problems}) == codes


@pytest.mark.parametrize(
    "name", ["agents/scuot.md", "penstock.toml", "../x.yaml", "/etc/passwd", f"agents/{'x' * 300}"]
)
def test_an_unknown_name_is_refused(flows: Path, run: Run, name: str) -> None:
    code, out, err = run("flow", "check", name)
    assert (code != 0, out) == (True, "")
    assert "give a path in the project folder, or a flow's command" in " ".join(
        err.replace("│", "").split()
    )


COUNT = "  - {id: count, type: code, outputs: [{name: n, type: number}]}\n"
DRAFTED = HEAD + "steps:\n" + COUNT + COUNT.replace("count", "more")
FIRST, SECOND = (f"flows/handlers/sums/{name}.ts.default" for name in ("count", "more"))


@pytest.fixture
def drafted(project: Path) -> Path:
    return laid(project, {"sums.yaml": DRAFTED, "look.yaml": LOOK, "bad.yaml": "steps: 5\n"})


def test_a_template_is_written_for_each_step_without_a_module(drafted: Path, run: Run) -> None:
    """`penstock flow generate` writes `ID.ts.default`."""
    code, out, _ = run("flow", "generate", "/sums")
    assert code == 0
    assert (
        out
        == f"wrote {FIRST}\nwrote {SECOND}\nedit each file, then remove .default from its name\n"
    )
    assert "n: number;" in (drafted / FIRST).read_text()
    (drafted / FIRST).rename(drafted / FIRST.removesuffix(".default"))
    code, out, _ = run("flow", "check", "sums")
    assert (code, out.count("handler-missing")) == (0, 1)


def test_existing_files_are_kept(drafted: Path, run: Run, run_json: Callable[..., Any]) -> None:
    run("flow", "generate", "sums")
    (drafted / FIRST).write_text("mine")
    assert run("flow", "generate", "sums")[1] == f"kept {FIRST}\nkept {SECOND}\n"
    assert (drafted / FIRST).read_text() == "mine"
    result = run_json("flow", "generate", "sums")
    assert result == {"written": [], "kept": [FIRST, SECOND], "dryRun": False}
    for name in (FIRST, SECOND):
        (drafted / name).rename(drafted / name.removesuffix(".default"))
    assert run("flow", "generate", "sums")[1] == "nothing is missing\n"


def test_a_dry_run_prints_what_would_be_written(
    drafted: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    out = run("flow", "generate", "sums", "--dry-run")[1]
    assert out == f"would write {FIRST}\nwould write {SECOND}\n"
    result = run_json("flow", "generate", "sums", "--dry-run")
    assert result == {"written": [FIRST, SECOND], "kept": [], "dryRun": True}
    assert not (drafted / "flows/handlers").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("suns", "Did you mean 'sums'?"),
        ("bad", "penstock flow check bad"),
        ("flows:new", "comes from a built-in flow"),
    ],
)
def test_a_flow_without_missing_modules_writes_nothing(
    drafted: Path, run: Run, name: str, message: str
) -> None:
    code, out, err = run("flow", "generate", name)
    assert (code != 0, out) == (True, "")
    assert message in err


def test_nothing_is_written_outside_of_the_project(drafted: Path, run: Run, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (drafted / "flows/handlers").symlink_to(outside)
    code, _, err = run("flow", "generate", "sums")
    assert code != 0
    assert "is outside the project" in err
    assert list(outside.iterdir()) == []


def test_a_name_that_cannot_be_a_file_is_reported(drafted: Path, run: Run) -> None:
    step = f"  - {{id: long, type: code, target: {'x' * 300}.ts}}\n"
    (drafted / "flows/sums.yaml").write_text(HEAD + "steps:\n" + step)
    code, _, err = run("flow", "generate", "sums")
    assert code != 0
    assert "its name is too long" in err
