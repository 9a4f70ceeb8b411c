"""`flo.d.ts`: which tools a folder's scripts reach, and what the file says of them."""

from pathlib import Path

import pytest

from penstock.tools.scripts.typings import MARK, Typings, declare
from penstock.tools.spec import ToolSpec
from tests.kit.manifests import load, skill, tool

FILES = {
    "a/a.skill.yaml": skill(
        "tools: [t_listed]\nscript_tools: [t_helper]\nrequires_skills: [b]\ntool_definitions:\n"
        "- name: t_inline\n  description: In.\n  input_schema: {type: object}\n"
        '  execution: {type: script, script: "export function run() {}"}',
        skill_id="a",
    ),
    "b/b.skill.yaml": skill("tools: [t_req]", skill_id="b"),
    "far/listed.tool.yaml": tool(name="t_listed"),
    "far/helper.tool.yaml": tool(name="t_helper"),
    "far/req.tool.yaml": tool(name="t_req"),
    "far/other.tool.yaml": tool(name="t_other"),
    "open/direct.tool.yaml": tool("direct_call: true\nscript_tools: [t_own]", name="t_direct"),
    "own/own.tool.yaml": tool(name="t_own"),
    "prompt/p.prompts.yaml": "execution: {preamble: x}\nsystem_prompt_resolver: "
    "{script_file: a.mts, entrypoint: run, timeout_ms: 5}",
    "prompt/a.mts": "",
    "lone/lone.tool.yaml": tool("script_tools: [t_other]", name="t_lone"),
}
BUILT_IN = ToolSpec(tool_id="read_text_file", description="Read.", input_schema={"type": "object"})
ALWAYS = {"read_text_file", "t_direct"}


@pytest.fixture
def typings(tmp_path: Path) -> Typings:
    """The typings of a project with skills, helpers and a direct call."""
    bundle = load(tmp_path, FILES)
    return Typings(bundle, bundle.skills, [BUILT_IN], "1.0")


@pytest.mark.parametrize(
    ("folder", "reached"),
    [
        ("a", {"t_listed", "t_helper", "t_inline", "t_req"}),
        ("b", {"t_req"}),
        ("open", {"t_own"}),
        ("own", set()),
        ("lone", set()),
        ("far", {"t_listed", "t_helper", "t_inline", "t_req"}),
    ],
)
def test_a_folder_has_the_tools_in_reach_of_its_manifests(
    typings: Typings, folder: str, reached: set[str]
) -> None:
    """Skill `tools`, `script_tools`, inline tools, required skills, own `script_tools`."""
    text = typings.of([folder])
    found = {each for each in (*ALWAYS, *KNOWN) if f"\n  {each}: {{\n" in text}
    assert found == ALWAYS | reached


KNOWN = ("t_listed", "t_helper", "t_inline", "t_req", "t_other", "t_own", "t_lone")


def test_every_folder_with_manifests_has_a_file(typings: Typings) -> None:
    assert typings.folders() == ["a", "b", "far", "lone", "open", "own", "prompt"]


def test_a_tool_has_its_input_and_its_output() -> None:
    """Input from `input_schema`, output from `output_schema` (else `FloJsonValue`)."""
    spec = ToolSpec(
        tool_id="x.y",
        description="Does it.",
        input_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
        output_schema={"type": "string"},
        kind="script",
    )
    text = declare([spec, BUILT_IN], "1.0")
    assert text.startswith(f"{MARK}1.0, ")
    assert text.endswith(
        "interface FloToolMap {\n"
        '  /** Does it. */\n  "x.y": {\n    input: {\n      n?: number;\n'
        "      [key: string]: any;\n    };\n    output: string;\n  };\n"
        "  /** Read. */\n  read_text_file: {\n    input: { [key: string]: FloJsonValue };\n"
        '    output: FloBuiltInOutputs["read_text_file"];\n  };\n}\n'
    )


def test_a_tool_with_a_mistake_elsewhere_keeps_its_types(tmp_path: Path) -> None:
    bundle = load(tmp_path, {"a.tool.yaml": tool("direct_call: true\ntimeout: 5")})
    assert "\n  a: {\n" in Typings(bundle, {}, [], "1.0").of(["."])
