"""The flows and the constants of a project."""

from pathlib import Path
from typing import Any

import pytest

from penstock.chat.requests import NewRun
from penstock.core.events.flow_events import FlowStarted
from penstock.core.ids import LogId
from penstock.flows.checks.context import AgentCard, CheckContext
from penstock.flows.project.flows import CONSTANTS_FILE, ProjectFlows, read_constants
from penstock.flows.project.library import FlowSource
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.flows.checks.findings import SEED
from tests.flows.texts import TOP, finding_lines
from tests.kit.flows import RUN, WORKERS, by_task, finish

TEXT = "name: n\ndescription: d\nsteps:\n  - {id: a, agent: scuot}\n"


def test_a_flow_is_returned_with_the_errors_that_prevent_a_run(tmp_path: Path) -> None:
    """A flow with an error diagnostic cannot be started."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "one.yaml").write_text(TEXT)
    agents = {"scout": AgentCard(name="scout")}
    library = ProjectFlows(tmp_path, lambda: CheckContext(agents=agents))
    (error,) = library.find("one").errors
    assert (error.line, error.message) == (4, 'unknown agent "scuot" in step "a"')
    agents["scuot"] = AgentCard(name="scuot")
    assert library.find("one").errors == []


def test_a_flow_is_read_on_each_request(tmp_path: Path) -> None:
    library = ProjectFlows(tmp_path, CheckContext)
    assert "late" not in library.files().files
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "late.yaml").write_text(TEXT)
    assert library.find("late").text == TEXT


@pytest.mark.parametrize("command", ["flows:new", "flows:edit"])
def test_built_in_flows_give_no_diagnostic(tmp_path: Path, command: str) -> None:
    """Built-in agents and flows give no diagnostic (section 21)."""
    outputs = ("flow_path", "command")
    agents = {
        "flow-architect": AgentCard(name="flow-architect", outputs=outputs),
        "flow-decision": AgentCard(name="flow-decision"),
    }
    library = ProjectFlows(tmp_path, lambda: CheckContext(agents=agents))
    _, diagnostics = library.check(library.files().files[command])
    assert [str(each) for each in diagnostics] == []


def test_a_flow_of_the_project_hides_the_built_in_one(tmp_path: Path) -> None:
    """A local one hides a package one, a package one hides a built-in one."""
    (tmp_path / "flows" / "flows").mkdir(parents=True)
    (tmp_path / "flows" / "flows" / "new.yaml").write_text(TEXT)
    assert ProjectFlows(tmp_path, CheckContext).find("flows:new").text == TEXT


def test_a_flow_with_an_error_is_listed_and_the_others_are_untouched(tmp_path: Path) -> None:
    """D6: A file with error diagnostics is listed as not valid and takes no part."""
    folder = tmp_path / "flows"
    folder.mkdir()
    steps = {"good": "scout", "odd": "scout, reads: x", "bad": "scuot"}
    for name, agent in steps.items():
        (folder / f"{name}.yaml").write_text(f"{TOP}- {{id: a, agent: {agent}}}\n")
    (folder / "broken.yaml").write_text("[")
    library = ProjectFlows(tmp_path, lambda: SEED)
    files = library.files().files
    assert {"bad", "broken", "good", "odd"} < set(files)
    assert finding_lines(library.check(files["bad"])[1]) == [
        '4 error unknown-agent: unknown agent "scuot" in step "a"; did you mean "scout"?'
    ]
    assert library.find("good").errors == library.find("odd").errors == []
    assert library.find("broken").errors


def test_each_flow_is_checked_with_the_flows_of_its_own_root(tmp_path: Path) -> None:
    project, package = tmp_path / "project", tmp_path / "package"
    for folder in (project / "flows", package):
        folder.mkdir(parents=True)
        (folder / f"{folder.name}.yaml").write_text(f"{TOP}- {{id: r, path: other.yaml}}\n")
    (package / "other.yaml").write_text(f"{TOP}- {{id: a, agent: scout}}\n")
    library = ProjectFlows(project, lambda: SEED, packages=[package])
    files = library.files().files
    assert {
        name: finding_lines(library.check(files[name])[1]) for name in ("flows", "package")
    } == {
        "flows": ['4 warning ref-missing: no flow at "other.yaml" (step "r")'],
        "package": [],
    }


def package_of(tmp_path: Path) -> ProjectFlows:
    """Return the flows of a project, and of a package one of whose flows refers to another."""
    project, package = tmp_path / "project", tmp_path / "package"
    (project / "flows").mkdir(parents=True)
    (package / "dom").mkdir(parents=True)
    (package / "dom" / "main.yaml").write_text(f"{TOP}- {{id: r, path: sub.yaml}}\n")
    (package / "dom" / "sub.yaml").write_text(f"{TOP}- {{id: a, agent: scout}}\n")
    return ProjectFlows(project, lambda: SEED, packages=[package])


def test_references_of_a_flow_in_a_package_stay_in_the_package(tmp_path: Path) -> None:
    """The package of the flow takes the place of the project (section 7.7)."""
    library = package_of(tmp_path)
    source = library.find("dom:main")
    assert (source.root, source.path) == (f"{tmp_path}/package", "dom/main.yaml")
    assert source.name == f"{tmp_path}/package/dom/main.yaml"
    for path in ("sub.yaml", "dom/sub.yaml", "s*.yaml", "**/sub.yaml"):
        (nested,) = library.refer(source, path) or ()
        assert (nested.root, nested.path) == (source.root, "dom/sub.yaml")
    assert library.refer(source, "../../project/flows/x.yaml") is None


def test_a_removed_package_has_no_flows(tmp_path: Path) -> None:
    library = package_of(tmp_path)
    elsewhere = FlowSource(root="/etc", path="main.yaml", texts={})
    assert library.refer(elsewhere, "*.yaml") == ()
    built_in = FlowSource(root="builtin", path="flows/new.yaml", texts={})
    assert [each.path for each in library.refer(built_in, "*.yaml") or ()] == [
        "flows/edit.yaml",
        "flows/new.yaml",
    ]


async def test_a_run_of_a_package_uses_the_stored_flows(tmp_path: Path) -> None:
    """A run keeps these texts to its end, whatever is written meanwhile (section 17)."""
    library = package_of(tmp_path)
    package = tmp_path / "package" / "dom"
    first = f"{TOP}- {{id: first, agent: scout, task: first}}\n- {{id: r, path: sub.yaml}}\n"
    (package / "main.yaml").write_text(first)

    def rewrite(request: ModelRequest) -> ScriptedReply:
        (package / "sub.yaml").write_text(f"{TOP}- {{id: b, agent: gone}}\n")
        return finish("rewritten")

    model = ScriptedModel(by_task({"first": rewrite}))
    place = MemoryStorage(flows=library)
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        envelope = await runtime.run_flow(NewRun(command="dom:main", task="t"), task_id=RUN)
    assert envelope.ok, envelope
    assert set(envelope.output["results"]) == {"first", "r", "r.a", "a"}
    started = [each.event for each in await place.log.read(LogId(RUN))]
    inner = [each for each in started if isinstance(each, FlowStarted)][1]
    assert (inner.root, inner.file) == (package.parent.as_posix(), "dom/sub.yaml")


def test_a_glob_sees_no_hidden_folder_except_that_of_flows(tmp_path: Path) -> None:
    """Flows lie in `flows/**`, `.pi/flows/flows/**` (section 1)."""
    hidden = (".git", "node_modules", ".pi/other", "flows/.x")
    for folder in ("flows", ".pi/flows/flows/x", "flows/handlers", *hidden):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.yaml").write_text(TEXT)
    library = ProjectFlows(tmp_path, CheckContext)

    def referred(file: str, path: str) -> list[str]:
        return [e.path for e in library.refer(FlowSource(path=file, texts={}), path) or ()]

    assert referred("flows/x.yaml", "../**/*.yaml") == [
        ".pi/flows/flows/x/a.yaml",
        "flows/a.yaml",
        "flows/handlers/a.yaml",
    ]
    assert referred("flows/x.yaml", "../flows/*.yaml") == ["flows/a.yaml"]
    assert referred(".pi/flows/flows/x.yaml", "x/*.yaml") == [".pi/flows/flows/x/a.yaml"]


def test_a_glob_over_too_many_files_fails(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for number in range(9):
        (tmp_path / "many" / f"{number}.txt").touch()
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "a.yaml").write_text(TEXT)
    library = ProjectFlows(tmp_path, CheckContext, max_seen=9)
    source = FlowSource(path="x.yaml", texts={})
    (nested,) = library.refer(source, "**/*.yaml") or ()
    assert nested.errors[0].code == "too-many-files"
    (nested,) = library.refer(source, "few/*.yaml") or ()
    assert (nested.path, nested.errors) == ("few/a.yaml", ())


def test_flows_are_listed_with_their_declarations(tmp_path: Path) -> None:
    """`name, description, source, path, taskRequired, taskPrompt?, inputs?, stepCount, valid`."""
    (tmp_path / "flows").mkdir()
    more = "task_required: true\ntask_prompt: Which?\ninputs: {n: {type: number, default: 1}}\n"
    (tmp_path / "flows" / "a.yaml").write_text(more + TEXT)
    (tmp_path / "flows" / "b.yaml").write_text("[")
    agents = {"scuot": AgentCard(name="scuot")}
    first, second, *built_in = ProjectFlows(tmp_path, lambda: CheckContext(agents=agents)).list()
    assert first.to_wire() == {
        "name": "a",
        "description": "d",
        "source": "local",
        "path": "flows/a.yaml",
        "taskRequired": True,
        "taskPrompt": "Which?",
        "inputs": [
            {"name": "n", "type": "number", "required": False, "description": "", "default": 1}
        ],
        "stepCount": 1,
        "valid": True,
    }
    assert (second.errors, second.description, second.to_wire()["valid"]) == (1, "", False)
    assert [each.file.command for each in built_in] == ["flows:edit", "flows:new"]


SUB_ERRORS = {
    "- {id: a, agent: scout, blockedBy: [nope]}": 'blockedBy of step "a" names unknown step "nope"',
    "- {id: a, agent: judge, task: t, branches: {x: nope, y: a}}": 'unknown step "nope"',
    "- {id: a, agent: scout, on_complete: nowhere}": 'names unknown step "nowhere"',
    "- {id: a, agent: scout}\n- {id: b, agent: nobody}": '5: unknown agent "nobody" in step "b"',
}


@pytest.mark.parametrize("path", ["sub.yaml", "su*.yaml", '"${{task}}.yaml"'])
@pytest.mark.parametrize(("sub", "message"), SUB_ERRORS.items())
async def test_a_nested_flow_with_errors_is_a_soft_failure(
    tmp_path: Path, path: str, sub: str, message: str
) -> None:
    """A sub-flow that has error diagnostics or lacks a required input: soft `ref_failed`."""
    (tmp_path / "flows").mkdir()
    more = "- {id: next, agent: scout, end: true}\n- {id: caught, agent: scout, task: caught}\n"
    main = f"{TOP}- {{id: r, path: {path}, on_error: caught}}\n{more}"
    (tmp_path / "flows" / "main.yaml").write_text(main)
    (tmp_path / "flows" / "sub.yaml").write_text(f"{TOP}{sub}\n")
    library = ProjectFlows(tmp_path, lambda: SEED)
    place, model = MemoryStorage(flows=library), ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        envelope = await runtime.run_flow(NewRun(command="main", task="sub"), task_id=RUN)
    results = envelope.output["results"]
    assert (envelope.output["status"], results["caught"]["summary"]) == ("success", "caught done")
    assert results["r"]["summary"].startswith("flows/sub.yaml has errors: line ")
    assert message in results["r"]["summary"]
    assert len(model.requests) == 1


def laid(root: Path, content: bytes) -> Path:
    (root / CONSTANTS_FILE).parent.mkdir(parents=True)
    (root / CONSTANTS_FILE).write_bytes(content)
    return root


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("tone: dry\nrounds: 3\nshare: 0.5\nloud: true\n", {"tone": "dry", "share": 0.5}),
        ("yes: no\n", {"yes": "no"}),
        ("# nothing\n", {}),
        ("", {}),
    ],
)
def test_texts_numbers_and_booleans_are_constants(
    tmp_path: Path, text: str, values: dict[str, Any]
) -> None:
    """§1: flow constants, `.pi/flows/config.yaml`; §23: "yes"."""
    constants = read_constants(laid(tmp_path, text.encode()))
    assert (values.items() <= constants.values.items(), constants.diagnostics) == (True, [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"tone: dry\nmore: [1]\n",
            '2 error wrong-type: "more" must be text, a number or a boolean, found array [1]',
        ),
        (b"- tone\n", "1 error yaml-not-mapping: must be a mapping of texts"),
        (b"tone: [\n", "2 error yaml-syntax: "),
        (b"tone: \xff\n", "1 error file-encoding: not UTF-8 at byte 6"),
        (b"#" * (1 << 20) + b"\n", "1 error file-too-large: the file has 1048577 bytes"),
    ],
)
def test_an_invalid_constant_is_reported_and_left_out(
    tmp_path: Path, content: bytes, message: str
) -> None:
    constants = read_constants(laid(tmp_path, content))
    (finding,) = finding_lines(constants.diagnostics)
    assert finding.startswith(message)
    assert set(constants.values) <= {"tone"}


def test_a_project_without_a_configuration_has_no_constants(tmp_path: Path) -> None:
    assert read_constants(tmp_path).diagnostics == ()


def test_a_configuration_outside_the_project_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "out.yaml").write_text("key: secret\n")
    root = tmp_path / "project"
    (root / CONSTANTS_FILE).parent.mkdir(parents=True)
    (root / CONSTANTS_FILE).symlink_to(tmp_path / "out.yaml")
    constants = read_constants(root)
    assert (constants.values, len(constants.diagnostics)) == ({}, 1)
