"""Writing flows while a project is open, and drafts of modules."""

from pathlib import Path
from typing import Any

import pytest

from penstock.agents.agent_profile import Tier
from penstock.core.errors import ReadOnly
from penstock.core.events.flow_events import Output, ValueType
from penstock.flows.checks.context import AgentCard, CheckContext
from penstock.flows.definition import Flow
from penstock.flows.project.authoring import (
    WHERE,
    check_local,
    drafts,
    missing_drafts,
    remove_flow,
    write_flow,
)
from penstock.flows.project.files import FlowFile
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.modules import ModuleLoader, RunFiles
from penstock.flows.steps.code import Code, CodeDecision

LONG = f"flows/{'x' * 300}/more.yaml"
GOOD = "name: x\ndescription: d\nsteps:\n  - {id: a, agent: scout}\n"
INSIDE = "flows/one/flow.yaml is one flow: other files in its folder are not flows"
BROKEN = GOOD.replace("scout", "scuot")


@pytest.fixture
def flows(tmp_path: Path) -> ProjectFlows:
    """The flows of a project with one agent."""
    check_context = CheckContext(agents={"scout": AgentCard(name="scout")})
    return ProjectFlows(tmp_path, lambda: check_context)


@pytest.mark.parametrize(
    ("path", "place", "command"),
    [
        ("research", "flows/research.yaml", "research"),
        ("research.yml", "flows/research.yml", "research"),
        ("flows/dom/apply", "flows/dom/apply.yaml", "dom:apply"),
        ("flows/dom/apply/flow.yaml", "flows/dom/apply/flow.yaml", "dom:apply"),
        (".pi/flows/flows/x.yaml", ".pi/flows/flows/x.yaml", "x"),
        ("{root}/flows/x.yaml", "flows/x.yaml", "x"),
    ],
)
def test_a_flow_is_written_to_the_folder_of_flows(
    flows: ProjectFlows, path: str, place: str, command: str
) -> None:
    """Name without `/` → `flows/NAME.yaml`; a missing suffix is added; `path` is relative."""
    written = write_flow(flows, path.format(root=flows.root), GOOD)
    assert written.to_wire() == {"written": True, "path": place, "diagnostics": []}
    assert (flows.root / place).read_text() == GOOD
    assert written.command == command
    assert command in flows.files().files


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("../x.yaml", "path is outside the project: ../x.yaml"),
        ("/etc/x.yaml", "path is outside the project: /etc/x.yaml"),
        ("flows/../../x.yaml", "path is outside the project: flows/../../x.yaml"),
        ("link/x.yaml", "path is outside the project: link/x.yaml"),
        (".env/x.yaml", "path is outside the project: .env/x.yaml"),
        (".penstock/x.yaml", "path is outside the project: .penstock/x.yaml"),
        (".env", WHERE),
        ("agents/x.yaml", WHERE),
        ("flows/x.md", WHERE),
        ("flows/.yaml", WHERE),
        ("flows/", WHERE),
        ("flows/x\0.yaml", "path is outside the project: flows/x\0.yaml"),
        ("flows/one/more.yaml", INSIDE),
        ("flows/taken.yaml", "'flows/taken.yaml' is a directory, or no plain file"),
        (LONG, f"there is no {LONG!r} in the project: its name is too long"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(
    flows: ProjectFlows, tmp_path_factory: pytest.TempPathFactory, path: str, error: str
) -> None:
    """Leaves the project (`..`, link), or is protected; outside the directories of §1."""
    (flows.root / "link").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    (flows.root / "flows/taken.yaml").mkdir(parents=True)
    write_flow(flows, "flows/one/flow.yaml", GOOD)
    written = write_flow(flows, path, GOOD)
    assert (written.is_written, written.error) == (False, error)


def test_a_flow_with_errors_is_not_written(flows: ProjectFlows) -> None:
    """Content with an error diagnostic: `written: false`, nothing on disk."""
    assert write_flow(flows, "x", BROKEN).to_wire() == {
        "written": False,
        "path": "flows/x.yaml",
        "diagnostics": [
            {
                "line": 4,
                "severity": "error",
                "message": 'unknown agent "scuot" in step "a"',
                "suggestion": 'did you mean "scout"?',
            }
        ],
    }
    assert not (flows.root / "flows").exists()


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("flows/a b.yaml", None),
        ("flows/handlers/x.yaml", "modules of code steps lie there: choose another folder"),
        ("flows/.x/y.yaml", None),
        ("flows/a/b/c/d/e/f/g.yaml", "namespaces nest up to 5 deep"),
    ],
)
def test_a_flow_without_a_command_is_not_written(
    flows: ProjectFlows, path: str, advice: str | None
) -> None:
    (finding,) = write_flow(flows, path, GOOD).diagnostics
    assert (finding.code, finding.suggestion) == ("bad-command-name", advice)
    assert not (flows.root / path).exists()


def test_a_flow_that_no_chat_can_call_gets_a_warning(flows: ProjectFlows) -> None:
    """`command-reserved`: a warning, and "only warnings, or none: written"."""
    written = write_flow(flows, "call", GOOD)
    (message,) = [each["message"] for each in written.to_wire()["diagnostics"]]
    assert message == '"/call" is a built-in command; in a chat this flow cannot be called'
    assert written.is_written


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        ("flows/x.yaml", ".pi/flows/flows/x.yaml", "is hidden by the one in flows/x.yaml"),
        (".pi/flows/flows/x.yaml", "flows/x.yaml", "hides the one in .pi/flows/flows/x.yaml"),
        ("flows/x.yaml", "flows/x.yml", "is hidden by the one in flows/x.yaml"),
        ("flows/x.yaml", "flows/x/flow.yaml", "hides the one in flows/x.yaml"),
    ],
)
def test_a_flow_that_hides_another_or_is_hidden_gets_a_warning(
    flows: ProjectFlows, first: str, then: str, message: str
) -> None:
    """D4: "`flows/` before `.pi/flows/…`; directory form before flat; then by path"."""
    write_flow(flows, first, GOOD)
    written = write_flow(flows, then, GOOD)
    (finding,) = written.diagnostics
    assert (finding.code, finding.message) == ("hidden", f'flow "/x" {message}')
    assert written.is_written
    winner = flows.files().files["x"].path
    assert winner == (first if "hidden by" in message else then)
    assert [each.code for each in flows.files().diagnostics] == ["hidden"]


def test_a_folder_that_becomes_one_flow_hides_the_flows_in_it(flows: ProjectFlows) -> None:
    """D2: a directory that holds `flow.yaml` is one flow: "Nothing else in it is searched"."""
    for path in ("flows/dom/a.yaml", "flows/dom/sub/b.yaml", "flows/other.yaml"):
        write_flow(flows, path, GOOD)
    written = write_flow(flows, "flows/dom/flow.yaml", GOOD)
    assert [each.message for each in written.diagnostics] == [
        'flow "/dom" hides the one in flows/dom/a.yaml',
        'flow "/dom" hides the one in flows/dom/sub/b.yaml',
    ]
    assert {"dom", "other"} == {
        each for each in flows.files().files if not each.startswith("flows:")
    }


def test_a_flow_with_warnings_is_written(flows: ProjectFlows) -> None:
    written = write_flow(flows, "x", GOOD + "more: 1\n")
    assert [each.code for each in written.diagnostics] == ["unknown-field"]
    assert written.is_written
    assert "suggestion" not in written.diagnostics[0].to_finding()


def test_content_that_is_not_text_is_not_written(flows: ProjectFlows) -> None:
    assert not write_flow(flows, "x", GOOD + "# \ud800\n").is_written


def test_a_flow_of_a_package_cannot_be_changed(tmp_path: Path) -> None:
    file = FlowFile(command="x", path="x.yaml", root=tmp_path, tier=Tier.PACKAGE)
    with pytest.raises(ReadOnly, match='"/x" comes from a package flow'):
        check_local(file)


def test_a_flow_is_removed_once(flows: ProjectFlows) -> None:
    write_flow(flows, "x", GOOD)
    file = flows.files().files["x"]
    remove_flow(file)
    remove_flow(file)
    assert "x" not in flows.files().files


DECIDE = CodeDecision(
    step_id="route",
    inputs={"text": "say ${{task}}", "list": "${{result.a.list}}", "a-b": ""},
    outputs=(
        Output(name="n", value_type=ValueType.NUMBER, description="how many */ of\nthem"),
        Output(name="code", pattern="^a", value_type=ValueType.ARRAY),
        Output(name="any"),
    ),
    branches={"a": "x", 'b "c"': "y"},
)
WANTED = (
    """
interface Input {
  text: string;
  list: unknown;
  "a-b": string;
}
""",
    r"""
interface Result {
  /** how many * / of them */
  n: number;
  code: string;
  any: unknown;
  branch: "a" | "b \"c\"";
}
""",
)


def drafted(file: str = "flows/dom/demo.yaml", **step: Any) -> dict[str, str]:
    steps = (Code(step_id="count", **step),)
    check_context = CheckContext(file=file, command="dom:demo")
    return drafts(Flow(name="demo", description="d", steps=steps), check_context)


@pytest.mark.parametrize(
    ("file", "step", "files"),
    [
        ("flows/dom/demo.yaml", {}, ["flows/dom/handlers/demo/count.ts.default"]),
        ("flows/dom/flow.yaml", {}, ["flows/dom/count.ts.default"]),
        ("flows/dom/demo.yaml", {"target": "../lib/a.mjs"}, ["flows/lib/a.mjs.default"]),
        ("flows/demo.yaml", {"target": "../../../a.ts"}, []),
    ],
)
def test_a_draft_is_beside_the_place_of_its_module(
    file: str, step: dict[str, Any], files: list[str]
) -> None:
    """`penstock flow generate` writes `ID.ts.default`."""
    assert list(drafted(file, **step)) == files


def test_a_draft_declares_its_inputs_and_its_result() -> None:
    flow = Flow(name="demo", description="d", steps=(DECIDE,))
    (text,) = drafts(flow, CheckContext(file="flows/demo.yaml", command="demo")).values()
    assert [each for each in WANTED if each not in text] == []


@pytest.mark.parametrize("target", [None, "a.mts", "a.js"])
def test_a_draft_is_a_module(modules: ModuleLoader, target: str | None) -> None:
    ((file, text),) = drafted(target=target, inputs={"a": "b"}).items()
    path = file.removesuffix(".default")
    loaded = modules.load(path, RunFiles({path: text}, path.rpartition("/")[0]))
    assert loaded.problems == ()
    assert ("interface" in text) is (target != "a.js")


@pytest.mark.parametrize("module", ["flows/handlers/demo/a.ts", ".pi/flows/handlers/demo/a.mjs"])
def test_a_step_with_a_module_needs_no_draft(module: str) -> None:
    steps = (Code(step_id="a"), Code(step_id="b"))
    flow = Flow(name="demo", description="d", steps=steps)
    check_context = CheckContext(
        file="flows/demo.yaml", command="demo", has_file=lambda file: file == module
    )
    assert list(missing_drafts(flow, check_context)) == ["flows/handlers/demo/b.ts.default"]
