"""The script tools of a bundle, usable and broken."""

import pytest
from msgspec.structs import replace

from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.core.call import Effect, RetryPolicy
from penstock.resources.hosts import read_patterns
from penstock.tools.policy import SCRIPT
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.load import bindings_of, broken_spec
from penstock.tools.scripts.script import ScriptTool
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage

RUN = "export const run = () => 1;"
DEFAULT_BINDINGS = Bindings(egress=read_patterns(["usual.test"]), runtime_config={"a": "b"})
GIVEN = {
    "effect": "read",
    "idempotent": "true",
    "timeout_ms": "5",
    "script_tools": "[b]",
    "requires_permissions": "[p.one]",
    "labels": "[l]",
    "retry_policy": "{max_attempts: 3}",
    "egress": "[own.test]",
    "limits": "{memory_mb: 128, nested_calls: 5, log_bytes: 7}",
    "vault": "[{key: k, scope_kinds: [shared]}]",
}


def tools_of(project: ProjectFolder) -> dict[str, ScriptTool]:
    """Return the script tools of a project."""
    result = load_project(load(project.root)).tools
    return {each.spec.tool_id: each for each in result if isinstance(each, ScriptTool)}


def test_a_minimal_manifest_gets_defaults(project: ProjectFolder) -> None:
    project.tool("a", RUN, direct_call="false")
    spec = tools_of(project)["a"].spec
    assert (spec.kind, spec.is_frame, spec.is_offered, spec.direct_call) == (
        SCRIPT,
        True,
        False,
        False,
    )
    assert (spec.effect, spec.timeout_ms, spec.retry.max_attempts) == (Effect.WRITE, 60_000, 1)


def test_a_manifest_becomes_the_specification_of_its_tool(project: ProjectFolder) -> None:
    project.tool("b", RUN)
    project.tool("a", RUN, **GIVEN)
    spec = tools_of(project)["a"].spec
    assert (spec.effect, spec.idempotent, spec.timeout_ms) == (Effect.READ, True, 5)
    assert (spec.script_tools, spec.labels) == (frozenset({"b"}), ("l",))
    assert spec.requires_permissions == {"p.one"}
    assert spec.retry == RetryPolicy(max_attempts=3)


def test_a_manifest_declares_the_bindings_of_its_script(project: ProjectFolder) -> None:
    project.tool("b", RUN)
    project.tool("a", RUN, **GIVEN)
    manifests = load_project(load(project.root)).bundle.tools
    own, usual = (bindings_of(manifests[name], DEFAULT_BINDINGS) for name in ("a", "b"))
    assert (own.memory_mb, own.nested_calls, own.log_bytes) == (128, 5, 7)
    assert own.egress == read_patterns(["own.test"])
    assert [each.key for each in own.vault] == ["k"]
    assert (usual.egress, usual.runtime_config) == (DEFAULT_BINDINGS.egress, {"a": "b"})


@pytest.mark.parametrize("script", ["import x from 'lodash';", "export const go = 1;", "const ="])
def test_a_broken_tool_exists_and_fails_when_called(project: ProjectFolder, script: str) -> None:
    project.tool("a", script)
    result = tools_of(project)
    assert result["a"].spec == replace(broken_spec("a"), direct_call=True)
    project.tool("a", script, direct_call="false", requires_permissions="[p.one]")
    spec = tools_of(project)["a"].spec
    assert not spec.direct_call
    assert spec.requires_permissions == {"p.one"}


def test_a_manifest_without_a_timeout_has_that_of_the_project(project: ProjectFolder) -> None:
    """`timeout_ms` 60000, past it killed: every limit of §10 by its name."""
    project.tool("a", RUN)
    project.tool("b", RUN, timeout_ms="5")
    project.write("penstock.toml", "[limits]\ntimeout_ms = 1234\n")
    result = tools_of(project)
    assert [result[name].spec.timeout_ms for name in "ab"] == [1234, 5]


async def test_an_entrypoint_that_is_not_a_function_is_reported_with_its_file(
    project: ProjectFolder,
) -> None:
    """`SCRIPT_LOAD_ERROR`: `details.diagnostics`; `file` relative to the project with `/`."""
    project.tool("a", "export const run = 5;")
    inline = "{type: script, script: 'export const run = 5;'}"
    project.tool("b", "", execution=inline)
    for name, file in (("a", "tools/a.mts"), ("b", "tools/b.tool.yaml")):
        error = (await Stage(project).call(name)).error
        assert error
        assert error.details
        assert (error.code, error.details["diagnostics"][0]["file"]) == ("SCRIPT_LOAD_ERROR", file)


def test_a_missing_global_is_a_warning_and_the_tool_works(project: ProjectFolder) -> None:
    project.tool("a", "export const run = () => new Intl.NumberFormat('de').format(1);")
    project.tool("b", f"import 'lodash'; {RUN}")
    result = load_project(load(project.root))
    (warned, broken) = result.diagnostics
    assert str(warned).startswith("tools/a.mts:1:30: warning absent-global: there is no")
    assert (warned.end_line, warned.end_column) == (1, 34)
    assert (broken.line, broken.column, broken.end_column) == (1, 8, 16)
    assert set(result.bundle.broken_tools) == {"b"}
