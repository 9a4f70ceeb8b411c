"""Checks across manifests: ids, references, cycles, tools without effect."""

from pathlib import Path

import pytest

from penstock.manifest.bundle import load_bundle
from penstock.manifest.references import Definition, ProjectNames
from tests.kit.manifests import TOOL, findings, load, skill, tool, write


def test_a_duplicate_tool_id_is_reported_at_each_place_and_breaks_both_tools(
    tmp_path: Path,
) -> None:
    """Reported at each place; all of them are broken."""
    inline = "tool_definitions:\n- " + TOOL.strip().replace("\n", "\n  ")
    bundle = load(tmp_path, {"a.tool.yaml": TOOL, "b.skill.yaml": skill(inline)})
    message = 'error duplicate-tool: tool "a" is defined in a.tool.yaml:2 and in b.skill.yaml:6'
    assert [str(each) for each in bundle.diagnostics] == [
        f"a.tool.yaml:2:7: {message}",
        f"b.skill.yaml:6:9: {message}",
    ]
    assert (bundle.tools, bundle.skills) == ({}, {})
    assert (list(bundle.broken_tools), list(bundle.broken_skills)) == (["a"], ["s"])


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ("abc", "a.tool.yaml:1, b.tool.yaml:1 and in c.tool.yaml:1"),
        (
            "abcdefg",
            ", ".join(f"{name}.tool.yaml:1" for name in "abcde") + " and in 2 more",
        ),
    ],
)
def test_each_place_of_a_duplicate_names_the_others(tmp_path: Path, names: str, first: str) -> None:
    reported = findings(tmp_path, {f"{name}.tool.yaml": tool() for name in names})
    assert len(reported) == len(names)
    assert reported[0].endswith(f" is defined in {first}")
    assert all(
        f"{name}.tool.yaml:1" in each.partition(" is ")[2]
        for name, each in zip(names, reported, strict=True)
    )


def test_a_duplicate_skill_id_is_reported_at_each_place(tmp_path: Path) -> None:
    message = 'error duplicate-skill: skill "s" is defined in a.skill.yaml:1 and in b.skill.yaml:1'
    assert findings(tmp_path, {"a.skill.yaml": skill(), "b.skill.yaml": skill()}) == [
        f"{name}.skill.yaml:1:11: {message}" for name in "ab"
    ]


def test_a_python_tool_is_a_place_of_a_duplicate(tmp_path: Path) -> None:
    python = {"a": Definition(file="tools/x.py", line=7)}
    bundle = load_bundle(
        write(tmp_path, {"a.tool.yaml": tool()}), ProjectNames(python_tools=python)
    )
    message = 'error duplicate-tool: tool "a" is defined in a.tool.yaml:1 and in tools/x.py:7'
    assert [str(each) for each in bundle.diagnostics] == [
        f"a.tool.yaml:1:7: {message}",
        f"tools/x.py:7:1: {message}",
    ]


TAKEN = [
    ("a.tool.yaml", tool(name="ask_user"), '1:7: error builtin-collision: "ask_user" is a tool'),
    ("a.tool.yaml", tool(name="mcp__x"), '1:7: error builtin-collision: "mcp__x" is a tool'),
    (
        "s.skill.yaml",
        skill(skill_id="read_dir"),
        '1:11: error builtin-collision: "read_dir" is a skill',
    ),
]


@pytest.mark.parametrize(("file", "text", "message"), TAKEN)
def test_the_ids_of_built_in_tools_and_skills_are_taken(
    tmp_path: Path, file: str, text: str, message: str
) -> None:
    """Also every id that begins with `mcp__`."""
    bundle = load(tmp_path, {file: text})
    whole = message.replace(" is a ", " is a built-in ") + "; choose another id"
    assert [str(each) for each in bundle.diagnostics] == [f"{file}:{whole}"]
    assert not {"ask_user", "read_dir"} & {*bundle.broken_tools, *bundle.broken_skills}


def test_the_ids_of_plugin_tools_are_taken(tmp_path: Path) -> None:
    plugin = frozenset({"a"})
    names = ProjectNames(builtin_tools=plugin, plugin_tools=plugin)
    bundle = load_bundle(write(tmp_path, {"a.tool.yaml": tool(name="a")}), names)
    message = '"a" is a tool of a plugin; choose another id'
    assert [each.message for each in bundle.diagnostics] == [message]


NOT = "is not a tool of this bundle or a built-in"
IN_SKILLS = [
    (
        "tools: [read_text_fil]",
        (
            f'5:9: error unknown-tool-ref: "read_text_fil" in "tools" {NOT}; '
            'did you mean "read_text_file"?'
        ),
    ),
    ("script_tools: [qqqqqqq]", f'5:16: error unknown-tool-ref: "qqqqqqq" in "script_tools" {NOT}'),
    (
        "tools: [mcp__x__y]",
        (
            '5:9: warning unverified-mcp-tool: "mcp__x__y" in "tools" names an MCP tool; whether '
            "it "
            "exists is known only when its server answers"
        ),
    ),
    (
        "tools: [ask_user, ask_user]",
        '5:19: warning listed-twice: "ask_user" is listed twice (tools[0], tools[1])',
    ),
    (
        "tools: [ask_user]\nscript_tools: [ask_user]",
        '6:16: warning listed-twice: "ask_user" is listed twice (tools[0], script_tools[0])',
    ),
    (
        "requires_skills: [read_dur]",
        (
            '5:19: error unknown-skill-ref: "read_dur" in "requires_skills" is not a skill of this '
            'bundle or a built-in; did you mean "read_dir"?'
        ),
    ),
    (
        "requires_skills: [read_dir, read_dir]",
        (
            '5:29: warning listed-twice: "read_dir" is listed twice '
            "(requires_skills[0], requires_skills[1])"
        ),
    ),
    (
        (
            "script_tools: [a]\ntool_definitions: [{name: a, description: d, "
            "input_schema: {type: object}, execution: {type: script, script: x}}]"
        ),
        (
            '5:16: error inline-listed: "a" is defined inline in this skill; '
            'remove it from "script_tools"'
        ),
    ),
]


@pytest.mark.parametrize(("lines", "message"), IN_SKILLS)
def test_an_unknown_id_in_a_skill_is_reported(tmp_path: Path, lines: str, message: str) -> None:
    assert findings(tmp_path, {"s.skill.yaml": skill(lines)}) == [f"s.skill.yaml:{message}"]


IN_TOOLS = [
    (
        "script_tools: [b]",
        f'6:16: error unknown-tool-ref: "b" in "script_tools" {NOT}; did you mean "a"?',
    ),
    (
        "script_tools: [a, a]",
        '6:19: warning listed-twice: "a" is listed twice (script_tools[0], script_tools[1])',
    ),
]


@pytest.mark.parametrize(("line", "message"), IN_TOOLS)
def test_an_unknown_id_in_a_tool_is_reported(tmp_path: Path, line: str, message: str) -> None:
    text = tool(f"direct_call: true\n{line}")
    assert findings(tmp_path, {"a.tool.yaml": text}) == [f"a.tool.yaml:{message}"]


def test_a_broken_tool_counts_as_known(tmp_path: Path) -> None:
    files = {"a.tool.yaml": tool("labels: 5"), "s.skill.yaml": skill("tools: [a]")}
    assert [each.split(":")[0] for each in findings(tmp_path, files)] == ["a.tool.yaml"]


@pytest.mark.slow("hundreds of names that are near to none")
def test_thousands_of_unknown_ids_are_all_reported(tmp_path: Path) -> None:
    files = {
        f"{number}.skill.yaml": skill(
            f"tools: [{', '.join(f'no_{number}_{each}' for each in range(200))}]",
            skill_id=f"s{number}",
        )
        for number in range(20)
    }
    codes = {each.code for each in load(tmp_path, files).diagnostics}
    assert codes == {"unknown-tool-ref"}
    assert len(load(tmp_path, files).diagnostics) == 4000


def test_an_engine_that_the_project_does_not_allow_breaks_the_tool(tmp_path: Path) -> None:
    """A wish outside it: diagnostic `engine-not-allowed`, the tool is broken."""
    text = tool(execution="{type: script, script: x, engine: deno}")
    bundle = load_bundle(write(tmp_path, {"a.tool.yaml": text}), ProjectNames(engines=("wasm",)))
    message = '"execution.engine" is "deno", and the project allows only wasm'
    assert [str(each) for each in bundle.diagnostics] == [
        f"a.tool.yaml:4:46: error engine-not-allowed: {message}"
    ]
    assert list(bundle.broken_tools) == ["a"]


def requiring(**required: str) -> dict[str, str]:
    return {
        f"{name}.skill.yaml": skill(f"requires_skills: [{others}]", skill_id=name)
        for name, others in required.items()
    }


def test_a_cycle_of_skills_is_reported_at_the_entry_that_closes_it(tmp_path: Path) -> None:
    reported = findings(tmp_path, requiring(a="c, b", b="a", c="", d="a"))
    assert reported == [
        "b.skill.yaml:5:19: error skill-cycle: requires_skills makes a cycle: a -> b -> a"
    ]


def test_a_skill_that_requires_itself_is_a_cycle(tmp_path: Path) -> None:
    reported = findings(tmp_path, requiring(a="a"))
    assert reported == [
        "a.skill.yaml:5:19: error skill-cycle: requires_skills makes a cycle: a -> a"
    ]


def test_two_ways_to_one_skill_are_no_cycle(tmp_path: Path) -> None:
    assert findings(tmp_path, requiring(a="b, c", b="d", c="d", d="")) == []


def test_the_message_leaves_out_the_middle_of_a_long_cycle(tmp_path: Path) -> None:
    ring = {f"s{number:02}": f"s{(number + 1) % 50:02}" for number in range(50)}
    (finding,) = findings(tmp_path, requiring(**ring))
    assert finding.endswith(
        "s00 -> s01 -> s02 -> s03 -> s04 -> … -> s46 -> s47 -> s48 -> s49 -> s00"
    )


HELPED = "script_tools: [read_text_file]"
UNUSED = (
    'warning script-tools-unused: "script_tools" of "a" have no effect: they apply only to direct '
    'calls, and "direct_call" is not true'
)
HIDDEN = (
    'warning script-tools-hidden: "a" can be called by a model in skill "s", where its own '
    '"script_tools" do not apply; add "read_text_file" to the skill\'s "script_tools"'
)


def test_helpers_of_a_tool_without_direct_call_have_no_effect(tmp_path: Path) -> None:
    assert findings(tmp_path, {"a.tool.yaml": tool(HELPED)}) == [f"a.tool.yaml:5:1: {UNUSED}"]


def test_helpers_that_a_models_call_cannot_use_are_reported(tmp_path: Path) -> None:
    """Reported instead of `script-tools-unused`."""
    files = {"a.tool.yaml": tool(HELPED), "s.skill.yaml": skill("tools: [a]")}
    assert findings(tmp_path, files) == [f"a.tool.yaml:5:1: {HIDDEN}"]


def test_helpers_of_a_direct_call_are_hidden_where_models_call_it(tmp_path: Path) -> None:
    files = {
        "a.tool.yaml": tool(f"{HELPED}\ndirect_call: true"),
        "s.skill.yaml": skill("tools: [a]"),
    }
    assert findings(tmp_path, files) == [f"a.tool.yaml:5:1: {HIDDEN}"]


def test_helpers_that_the_skill_grants_are_not_hidden(tmp_path: Path) -> None:
    files = {
        "a.tool.yaml": tool("script_tools: [b, c, ask_user]\ndirect_call: true"),
        "b.tool.yaml": tool(name="b"),
        "c.tool.yaml": tool("direct_call: true", name="c"),
        "s.skill.yaml": skill("tools: [a]\nrequires_skills: [r]"),
        "r.skill.yaml": skill("script_tools: [b]", skill_id="r"),
    }
    assert findings(tmp_path, files) == []


def test_helpers_that_a_required_built_in_skill_grants_are_not_hidden(tmp_path: Path) -> None:
    files = {
        "a.tool.yaml": tool("script_tools: [read_dir]\ndirect_call: true"),
        "s.skill.yaml": skill("tools: [a]\nrequires_skills: [read_dir]"),
    }
    assert findings(tmp_path, files) == []
    files["s.skill.yaml"] = skill("tools: [a]")
    (finding,) = findings(tmp_path, files)
    assert finding.startswith("a.tool.yaml:5:1: warning script-tools-hidden:")


def test_helpers_of_an_inline_tool_are_hidden_in_its_skill(tmp_path: Path) -> None:
    inline = "tool_definitions:\n- " + tool(HELPED).strip().replace("\n", "\n  ")
    (finding,) = load(tmp_path, {"s.skill.yaml": skill(inline)}).diagnostics
    assert str(finding) == f"s.skill.yaml:10:3: {HIDDEN}"


def test_helpers_of_a_tool_without_a_valid_name_are_not_reported(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, {"a.tool.yaml": tool(HELPED, name='"no id"')})
    assert "script_tools" not in finding
