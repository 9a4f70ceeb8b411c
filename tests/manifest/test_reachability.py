"""Cycles of skills, and helpers that nobody could call."""

from pathlib import Path

from tests.kit.manifests import findings, load, skill, tool


def requiring(**required: str) -> dict[str, str]:
    return {
        f"{name}.skill.yaml": skill(f"requires_skills: [{others}]", skill_id=name)
        for name, others in required.items()
    }


def test_a_cycle_of_skills_is_said_at_the_entry_that_closes_it(tmp_path: Path) -> None:
    found = findings(tmp_path, requiring(a="c, b", b="a", c="", d="a"))
    assert found == [
        "b.skill.yaml:5:19: error skill-cycle: requires_skills makes a cycle: a -> b -> a"
    ]


def test_a_skill_that_requires_itself_is_a_cycle(tmp_path: Path) -> None:
    found = findings(tmp_path, requiring(a="a"))
    assert found == ["a.skill.yaml:5:19: error skill-cycle: requires_skills makes a cycle: a -> a"]


def test_skills_that_meet_again_are_no_cycle(tmp_path: Path) -> None:
    assert findings(tmp_path, requiring(a="b, c", b="d", c="d", d="")) == []


def test_of_a_long_cycle_the_middle_is_left_out(tmp_path: Path) -> None:
    ring = {f"s{number:02}": f"s{(number + 1) % 50:02}" for number in range(50)}
    (found,) = findings(tmp_path, requiring(**ring))
    assert found.endswith("s00 -> s01 -> s02 -> s03 -> s04 -> … -> s46 -> s47 -> s48 -> s49 -> s00")


HELPED = "script_tools: [read_text_file]"
UNUSED = (
    'warning script-tools-unused: "script_tools" of "a" have no effect: they apply only to direct '
    'calls, and "direct_call" is not true'
)
HIDDEN = (
    'warning script-tools-hidden: "a" can be called by a model in skill "s", where its own '
    '"script_tools" do not apply; add "read_text_file" to the skill\'s "script_tools"'
)


def test_helpers_of_what_is_no_direct_call_have_no_effect(tmp_path: Path) -> None:
    assert findings(tmp_path, {"a.tool.yaml": tool(HELPED)}) == [f"a.tool.yaml:5:1: {UNUSED}"]


def test_helpers_that_a_models_call_does_not_reach_are_said_in_its_place(tmp_path: Path) -> None:
    """Stands in for `script-tools-unused`."""
    files = {"a.tool.yaml": tool(HELPED), "s.skill.yaml": skill("tools: [a]")}
    assert findings(tmp_path, files) == [f"a.tool.yaml:5:1: {HIDDEN}"]


def test_a_direct_call_that_models_call_too_has_its_helpers_hidden(tmp_path: Path) -> None:
    files = {
        "a.tool.yaml": tool(f"{HELPED}\ndirect_call: true"),
        "s.skill.yaml": skill("tools: [a]"),
    }
    assert findings(tmp_path, files) == [f"a.tool.yaml:5:1: {HIDDEN}"]


def test_helpers_that_the_skill_grants_by_itself_are_not_hidden(tmp_path: Path) -> None:
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
    (found,) = findings(tmp_path, files)
    assert found.startswith("a.tool.yaml:5:1: warning script-tools-hidden:")


def test_helpers_of_an_inline_tool_are_hidden_in_its_skill(tmp_path: Path) -> None:
    inline = "tool_definitions:\n- " + tool(HELPED).strip().replace("\n", "\n  ")
    (found,) = load(tmp_path, {"s.skill.yaml": skill(inline)}).diagnostics
    assert str(found) == f"s.skill.yaml:10:3: {HIDDEN}"


def test_helpers_of_a_tool_whose_name_cannot_be_read_are_not_spoken_of(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, {"a.tool.yaml": tool(HELPED, name='"no id"')})
    assert "script_tools" not in found
