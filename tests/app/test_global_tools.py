"""Every model and every script can use the `global_tools` of penstock.toml."""

import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.agents.tool_offer import offered
from penstock.app.global_tools import check_global_tools, with_global_tools
from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.builtins import TOOLS
from penstock.builtins.families import FAMILIES
from penstock.core.profile import LOCAL_PROFILE
from penstock.tools.python.function import tool
from penstock.tools.tool import Tool
from tests.kit.project import ProjectFolder


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return word


BUILT_IN = next(each for each in TOOLS if each.spec.tool_id == "read_dir")


@pytest.mark.parametrize("values", [BUILT_IN, look_up])
def test_a_chosen_tool_is_global_only_in_this_project(values: Tool) -> None:
    name = values.spec.tool_id
    (global_tool,) = with_global_tools([values], [name])
    assert global_tool.spec.is_global
    assert global_tool.spec.is_offered
    assert not values.spec.is_global
    assert with_global_tools([values], ["other"]) == (values,)


SCRIPT = """
export async function run() {
  const found = await flo.callTool({ tool_id: "helper", input: {} });
  return found.status === "success" ? found.output : found.error.code;
}
"""


@pytest.mark.parametrize(("chosen", "output"), [((), "NOT_PERMITTED"), (("helper",), 5)])
async def test_every_script_can_call_a_global_tool_and_no_program(
    project: ProjectFolder, chosen: tuple[str, ...], output: Any
) -> None:
    """`global_tools`: ids added to the global runtime tools; outside no grant comes of it."""
    project.tool("asks", SCRIPT)
    project.tool("helper", "export const run = () => 5;", direct_call="false")
    async with project.opened(settings={"global_tools": chosen}) as runtime:
        assert (await runtime.call("asks", {})).output == output
        outside = (await runtime.call("helper", {})).error
    assert outside is not None


async def test_a_model_is_offered_a_global_tool_without_a_skill(project: ProjectFolder) -> None:
    """`enabled_tools` null: global runtime tools."""
    project.tool("helper", "export const run = () => 5;", direct_call="false")
    project.write("penstock.toml", 'global_tools = ["helper", "read_dir", "look_up"]\n')
    async with project.opened(tools=[look_up]) as runtime:
        offered_tools = offered(Agent("assistant"), runtime.parts.tools.invoker, LOCAL_PROFILE)
        settings = ChatSettings(enabled_tools=("helper",))
        listed = offered(
            Agent("assistant", settings=settings), runtime.parts.tools.invoker, LOCAL_PROFILE
        )
    assert {"helper", "read_dir", "look_up"} <= {each.spec.tool_id for each in offered_tools}
    assert [each.spec.tool_id for each in listed] == ["helper"]


def test_an_unknown_global_tool_is_reported_with_the_nearest(project: ProjectFolder) -> None:
    project.tool("helper", "export const run = () => 5;")
    project.write("penstock.toml", '# one\nglobal_tools = ["helpre", "mcp__notes__read"]\n')
    (finding,) = load_project(load(project.root, cache_dir=str(project.cache))).diagnostics
    assert str(finding) == (
        'penstock.toml:2:1: error unknown-tool-ref: "helpre" in "global_tools" is not a tool of '
        'this project or a built-in; did you mean "helper"?'
    )


def test_a_finding_without_a_file_has_line_1(tmp_path: Path) -> None:
    (finding,) = check_global_tools(["none"], ["a_tool"], tmp_path / "penstock.toml")
    assert (finding.line, finding.suggestion) == (1, None)


NO_FAMILY = "is not a family of built-in tools"


@pytest.mark.parametrize(
    ("family", "code", "expected"),
    [
        ("file", "error unknown-tool-family", f'{NO_FAMILY}; did you mean "files"?'),
        (
            "read_dir",
            "error unknown-tool-family",
            f'{NO_FAMILY}; it is a tool of the family "workspace"',
        ),
        (
            "qqqqqqqqqq",
            "error unknown-tool-family",
            f"{NO_FAMILY}; there are {', '.join(FAMILIES)}",
        ),
        (
            "shell",
            "warning useless-tool-family",
            "offers nothing: shell commands are off; set shell = true under [flows]",
        ),
    ],
)
def test_a_wrong_or_useless_family_is_reported_at_its_line(
    project: ProjectFolder, family: str, code: str, expected: str
) -> None:
    project.write("penstock.toml", f'[tools]\n# builtin = []\nbuiltin = ["sheets", "{family}"]\n')
    (finding,) = load_project(load(project.root, cache_dir=str(project.cache))).diagnostics
    assert (
        str(finding) == f'penstock.toml:3:1: {code}: "{family}" in "builtin" of [tools] {expected}'
    )


def test_a_family_without_its_extra_offers_the_rest_and_names_the_extra(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    project.write("penstock.toml", '[tools]\nbuiltin = ["sheets"]\n')
    read = load_project(load(project.root, cache_dir=str(project.cache)))
    (finding,) = read.diagnostics
    assert str(finding) == (
        'penstock.toml:2:1: warning useless-tool-family: "sheets" in "builtin" of [tools] offers '
        "only some of its tools: excel_* need openpyxl, which is not installed; "
        "pip install 'penstock[sheets]'"
    )
    offered = {each.spec.tool_id for each in read.builtin_tools if each.spec.is_offered}
    assert "csv_read" in offered
    assert not {each for each in offered if each.startswith("excel_")}
