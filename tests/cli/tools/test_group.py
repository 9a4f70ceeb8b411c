"""`penstock tools`: list, show, grants."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.project import ProjectFolder
from tests.kit.visibility import write_project

Run = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]
VAULT = "[{key: k, scope_kinds: [shared, profile]}]"


@pytest.fixture
def scripts(project: Path, machine_code: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """Put script tools and skills into the project."""
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(machine_code))
    folder = ProjectFolder(project, machine_code)
    write_project(folder)
    folder.tool("wrong", "import x from 'lodash';\nexport const run = () => x;", labels="[old]")
    return folder


MEANT = "Did you mean 'hello'? Run `penstock tools list` to see all tools."


def test_tools_of_the_project_are_listed_with_built_in_ones(run: Run) -> None:
    code, out, err = run("tools", "list")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["tool", "kind", "effect", "defined", "flags"]
    assert any(line.split()[:4] == ["read_dir", "builtin", "read", "penstock"] for line in lines)
    assert lines[-1].split() == ["hello", "python", "none", "tools/hello.py:7", "direct"]
    assert err == f"{len(lines) - 1} tools\n"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--skill", "b"], ["t_req", "t_reqh"]),
        (["--skill", "c"], ["t_other"]),
        (["--direct"], ["hello", "t_direct", "t_perm"]),
        (["--broken"], ["wrong"]),
        (["--label", "old"], []),
        (["--label", "old", "--broken"], []),
        (["--skill", "a", "--direct"], []),
    ],
)
def test_lists_are_filtered(
    scripts: ProjectFolder, run_json: Json, options: list[str], names: list[str]
) -> None:
    tools = run_json("tools", "list", *options)["tools"]
    assert sorted(each["id"] for each in tools) == names


def test_built_in_tools_are_a_separate_list(scripts: ProjectFolder, run_json: Json) -> None:
    kinds = {each["kind"] for each in run_json("tools", "list", "--builtin")["tools"]}
    assert kinds == {"builtin"}


def test_an_unknown_skill_is_refused_with_the_nearest(scripts: ProjectFolder, run: Run) -> None:
    code, _, err = run("tools", "list", "--skill", "read_dirs")
    assert code == 1
    assert "There is no skill 'read_dirs'. Did you mean 'read_dir'?" in err


def test_a_tool_is_shown_with_its_defaults(run: Run, run_json: Json) -> None:
    shown = run_json("tools", "show", "hello")
    assert shown["effect"] == "none"
    assert shown["timeout_ms"] == 60_000
    assert shown["input_schema"]["required"] == ["name"]
    assert '"kind": "python"' in run("tools", "show", "hello")[1]


def test_an_effect_that_no_author_declared_is_shown_as_the_default(
    project: Path, run: Run, run_json: Json
) -> None:
    code = 'from penstock import tool\n\n\n@tool\ndef pay(euros: int) -> str:\n    "Pay."\n'
    (project / "tools/pay.py").write_text(code, encoding="utf-8")
    _, out, _ = run("tools", "list")
    assert "write (default)" in next(line for line in out.splitlines() if line.startswith("pay"))
    assert out.count("(default)") == 1
    defaults = {name: run_json("tools", "show", name)["effect_is_default"] for name in TWO}
    assert defaults == {"pay": True, "hello": False}
    _, out, _ = run("doctor")
    assert "✓ tools: pay: write (default). A crash may interrupt its calls" in out


TWO = ("pay", "hello")


def test_a_script_tool_is_shown_with_its_manifest_its_modules_and_its_diagnostics(
    scripts: ProjectFolder, run_json: Json
) -> None:
    """Section 20: "manifest with defaults filled in, modules, diagnostics"."""
    shown = run_json("tools", "show", "t_direct")
    assert shown["manifest"]["retry_policy"]["max_attempts"] == 1
    assert shown["manifest"]["limits"]["memory_mb"] == 64
    assert (shown["manifest"]["timeout_ms"], shown["manifest"]["egress"]) == (60_000, [])
    assert shown["modules"] == ["t_direct.mts"]
    assert shown["diagnostics"] == []
    scripts.tool("keeps", "export const run = () => 1;", vault=VAULT)
    kept = run_json("tools", "show", "keeps")["manifest"]["vault"]
    assert kept == [{"key": "k", "scope_kinds": ["profile", "shared"]}]
    broken = run_json("tools", "show", "wrong")
    assert [each["code"] for each in broken["diagnostics"]] == ["import-bare"]
    assert (broken["broken"], broken["modules"]) == (True, [])


def test_an_unknown_tool_is_refused_with_the_nearest(run: Run) -> None:
    code, _, err = run("tools", "show", "helo")
    assert (code, err.splitlines()) == (1, [f"Error: There is no tool 'helo'. {MEANT}"])


def test_tools_offered_to_a_model_are_listed_with_their_tokens(run: Run, run_json: Json) -> None:
    code, out, err = run("tools", "list", "--offered", "assistant")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["tool", "kind", "family", "tokens"]
    assert [row[:-1] for row in rows[1:]] == [
        ["ask_user", "builtin", "core"],
        ["read_tool_result_artifact", "builtin", "core"],
        ["hello", "python"],
    ]
    total = sum(int(row[-1]) for row in rows[1:])
    assert err == f"3 tools, about {total} tokens of every request to the model\n"
    shown = run_json("tools", "list", "--offered", "assistant")
    assert (shown["agent"], shown["tokens"], len(shown["tools"])) == ("assistant", total, 3)
    own = run_json("tools", "list", "--offered", "assistant", "--direct")["tools"]
    assert [each["id"] for each in own] == ["hello"]


def test_an_offer_has_the_tools_of_preselected_skills_except_denied_ones(
    project: Path, run_json: Json
) -> None:
    agent = "---\nname: clerk\ntools: [hello, read]\nselected_skills: [read_csv]\n---\nWork.\n"
    (project / "agents" / "clerk.md").write_text(agent)
    (project / "penstock.toml").write_text('[[rules]]\ntool = "hello"\naction = "deny"\n')
    shown = run_json("tools", "list", "--offered", "clerk")["tools"]
    assert [(each["id"], each["family"]) for each in shown] == [
        ("read", "files"),
        ("csv_inspect", "sheets"),
        ("csv_read", "sheets"),
    ]


def test_an_offer_has_the_agents_that_a_file_lists(project: Path, run_json: Json) -> None:
    for name, tools in (("clerk", "[hello, finder]"), ("finder", "[]")):
        text = f"---\nname: {name}\ndescription: Finds.\ntools: {tools}\n---\nWork.\n"
        (project / "agents" / f"{name}.md").write_text(text)
    shown = run_json("tools", "list", "--offered", "clerk")["tools"]
    assert [(each["id"], each["kind"]) for each in shown] == [
        ("hello", "python"),
        ("finder", "agent"),
    ]
    direct = run_json("tools", "list", "--offered", "clerk", "--direct")["tools"]
    assert [each["id"] for each in direct] == ["hello"]


def test_an_agent_without_tools_is_offered_none(project: Path, run: Run) -> None:
    agent = "---\nname: mute\ntools: [hello]\nsettings: {tools_enabled: false}\n---\nTalk.\n"
    (project / "agents" / "mute.md").write_text(agent)
    assert "0 tools, about 0 tokens" in run("tools", "list", "--offered", "mute")[2]


def test_an_unknown_agent_is_refused_with_the_nearest(run: Run) -> None:
    code, _, err = run("tools", "list", "--offered", "asistant")
    assert code == 1
    assert "There is no agent 'asistant'. Did you mean 'assistant'?" in err


DIRECT = ("--root", "t_direct")
SELECTED = ("--skill", "a")


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize(
    ("tool", "origin", "options", "verdict"),
    [
        ("ask_user", "model", (), "global"),
        ("ask_user", "direct", (), "TOOL_NOT_FOUND"),
        ("t_req", "model", SELECTED, "tools"),
        ("t_inline", "script", SELECTED, "inline"),
        ("t_helper", "model", SELECTED, "TOOL_NOT_FOUND"),
        ("t_helper", "script", SELECTED, "script_tools"),
        ("t_helper", "script", (), "NOT_PERMITTED"),
        ("t_direct", "direct", (), "direct_call"),
        ("t_direct", "script", DIRECT, "self"),
        ("t_own", "script", DIRECT, "own_script_tools"),
        ("t_own2", "script", DIRECT, "NOT_PERMITTED"),
        ("hello", "model", (), "agent"),
    ],
)
def test_the_verdict_matches_the_visibility_table(
    run_json: Json, tool: str, origin: str, options: tuple[str, ...], verdict: str
) -> None:
    shown = run_json("tools", "grants", tool, "--origin", origin, *options)
    assert [each["verdict"] for each in shown["origins"]] == [verdict]


@pytest.mark.usefixtures("scripts")
def test_every_grant_is_shown_whether_it_holds_or_not(run_json: Json) -> None:
    shown = run_json("tools", "grants", "t_own", "--origin", "script", *DIRECT, *SELECTED)
    assert shown["skills"] == ["a", "b"]
    (part,) = shown["origins"]
    assert part["grants"] == {
        "global": False,
        "tools": False,
        "inline": False,
        "script_tools": False,
        "self": False,
        "direct_call": False,
        "own_script_tools": True,
    }


@pytest.mark.usefixtures("scripts")
def test_people_read_all_origins_as_a_table(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = run("tools", "grants", "t_direct")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["direct", "direct_call", "yes"] in rows
    assert ["model", "verdict", "TOOL_NOT_FOUND"] in rows
    assert err.endswith("selected skills: none\n")
