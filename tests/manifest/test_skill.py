"""Skill manifests, what skills grant, and their resources."""

from pathlib import Path

import pytest

from penstock.manifest.skill import (
    FIELDS,
    MAX_RESOURCES,
    Resource,
    SkillGrants,
    SkillManifest,
    grant,
    list_resources,
    order_skills,
)
from tests.kit.manifests import SKILL, TOOL, findings, load, skill, write

BROWSER = """skill_id: browser_examples
name: Browser Examples
description: Browser-based tools for authenticated workflows.
tools:
  - read_text_file
tool_definitions:
  - name: capture_example
    description: Open a page and return the current URL.
    input_schema:
      type: object
      properties:
        url:
          type: string
      required: [url]
    execution:
      type: script
      script_file: scripts/capture_example.mts
      entrypoint: run
instruction_file: instructions.md
"""
SENDER = """skill_id: file_sender
name: File Sender
description: Prepare a file and return it as an attachment.
script_tools:
- send_media_attachment
instruction_file: instructions.md
"""


def test_the_skill_example_has_no_findings(tmp_path: Path) -> None:
    """B14: the `browser_examples` skill loads without diagnostics."""
    files = {
        "web/b.skill.yaml": BROWSER,
        "web/instructions.md": "\ufeffOpen pages.",
        "web/scripts/capture_example.mts": "",
    }
    bundle = load(tmp_path, files)
    manifest = bundle.skills["browser_examples"]
    assert not bundle.diagnostics
    assert (manifest.instruction, manifest.tools) == ("Open pages.", ("read_text_file",))
    assert [each.tool_id for each in manifest.inline] == ["capture_example"]
    inline = bundle.tools["capture_example"]
    assert (inline.skill, inline.file, inline.line) == ("browser_examples", "web/b.skill.yaml", 7)
    assert inline.folder == manifest.folder == "web"


def test_the_helper_example_has_no_findings(tmp_path: Path) -> None:
    """N22: the `file_sender` manifest loads without diagnostics."""
    bundle = load(tmp_path, {"f.skill.yaml": SENDER, "instructions.md": "Send."})
    assert not bundle.diagnostics
    assert bundle.skills["file_sender"].script_tools == ("send_media_attachment",)


@pytest.mark.parametrize("key", ["skill_id", "name", "description"])
def test_each_missing_required_field_of_a_skill_is_reported(tmp_path: Path, key: str) -> None:
    """B11: skill "must include" skill_id, name, description."""
    message = f'error missing-key: a skill manifest must have "{key}"'
    assert findings(tmp_path, {"s.skill.yaml": skill(**{key: ""})}) == [
        f"s.skill.yaml:1:1: {message}"
    ]


def test_an_invalid_id_is_reported_with_the_rule(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, {"s.skill.yaml": skill(skill_id="a b")})
    assert finding.startswith(
        's.skill.yaml:1:11: error bad-id: "a b" is not a valid skill id: use '
    )


ONE = 'a skill manifest must have exactly one of "instruction" and "instruction_file"'


def test_a_skill_needs_exactly_one_source_of_instructions(tmp_path: Path) -> None:
    """B12: "exactly one instruction source"; both, neither: `exactly-one`."""
    files = {
        "a.skill.yaml": skill(instruction=""),
        "b.skill.yaml": skill("instruction_file: x.md", skill_id="t"),
        "x.md": "Do it.",
    }
    assert findings(tmp_path, files) == [
        f"a.skill.yaml:1:1: error exactly-one: {ONE}; found neither",
        f"b.skill.yaml:5:1: error exactly-one: {ONE}; found both",
    ]


def test_an_omitted_field_has_its_default(tmp_path: Path) -> None:
    """B13: optional version, tools, tool_definitions, requires_skills."""
    manifest = load(tmp_path, {"s.skill.yaml": SKILL}).skills["s"]
    assert (manifest.version, manifest.instruction_file, manifest.execution_model_tier) == (
        None,
    ) * 3
    assert (manifest.tools, manifest.script_tools, manifest.inline, manifest.requires_skills) == (
        (),
    ) * 4
    assert (manifest.requires_labels, manifest.requires_permissions) == ((), ())
    assert manifest.completion_verification is None


FULL = """
version: "1.0"
tools: [read_text_file]
script_tools: [send_media_attachment]
requires_skills: [read_dir]
requires_labels: [l]
requires_permissions: [p]
execution_model_tier: frontier
completion_verification: false
"""


def test_every_field_of_a_full_skill_is_read(tmp_path: Path) -> None:
    """B13: as B05."""
    bundle = load(tmp_path, {"s.skill.yaml": skill(FULL)})
    manifest = bundle.skills["s"]
    assert not bundle.diagnostics
    assert (manifest.version, manifest.requires_skills) == ("1.0", ("read_dir",))
    assert (manifest.requires_labels, manifest.requires_permissions) == (("l",), ("p",))
    assert (manifest.execution_model_tier, manifest.completion_verification) == ("frontier", False)


WRONG = [
    (
        "version: 1.0",
        '10: error wrong-type: "version" must be a string (put it in quotes), found number 1.0',
    ),
    (
        "requires_skills: a",
        '18: error wrong-type: "requires_skills" must be a list of skill ids, found string "a"',
    ),
    (
        "execution_model_tier: huge",
        (
            '23: error bad-value: "execution_model_tier" must be one of nano, small, medium, '
            "large, "
            'frontier, found string "huge"'
        ),
    ),
    (
        "completion_verification: 1",
        '26: error wrong-type: "completion_verification" must be true or false, found number 1',
    ),
    (
        "tool_definitions: {}",
        (
            '19: error wrong-type: "tool_definitions" must be a list of tool manifests, '
            "found object {}"
        ),
    ),
    (
        "tool_definitions: [x]",
        '20: error wrong-type: "tool_definitions[0]" must be a mapping, found string "x"',
    ),
    (
        "instructions: x",
        (
            '1: error unknown-key: unknown key "instructions" in a skill manifest; '
            'did you mean "instruction"?'
        ),
    ),
    (
        "requires_permissions: [p, p]",
        '27: error declared-twice: permission "p" is declared twice in "requires_permissions"',
    ),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_an_invalid_value_is_reported_at_its_position(
    tmp_path: Path, line: str, message: str
) -> None:
    """B13: `version: 1.0` unquoted: `wrong-type`."""
    assert findings(tmp_path, {"s.skill.yaml": skill(line)}) == [f"s.skill.yaml:5:{message}"]


INLINE = """
tool_definitions:
  - name: x y
    timeout: 5
    input_schema: {type: array}
    execution: {type: script}
    state: [{name: n}]
"""


def test_an_inline_tool_is_checked_like_any_other(tmp_path: Path) -> None:
    """Each a whole tool manifest: same diagnostics, `"tool_definitions[i]"`."""
    reported = findings(tmp_path, {"s.skill.yaml": skill(INLINE)})
    first = '"tool_definitions[0]'
    assert [each.removeprefix("s.skill.yaml:") for each in reported] == [
        f'6:5: error missing-key: {first}" must have "description"',
        (
            '6:11: error bad-id: "x y" is not a valid tool id: use letters, digits, "_", "." '
            'and "-", begin with a letter or "_", at most 64 characters'
        ),
        f'7:5: error unknown-key: unknown key "timeout" in {first}"; did you mean "timeout_ms"?',
        (
            f'8:26: error schema-not-object: {first}.input_schema" must have type "object", '
            'found string "array"'
        ),
        (
            f'9:16: error exactly-one: {first}.execution" must have exactly one of "script" and '
            '"script_file"; found neither'
        ),
        f'10:13: error missing-key: {first}.state[0]" must have "key_prefix"',
        f'10:13: error missing-key: {first}.state[0]" must have "scope_kind"',
    ]


INSTRUCTIONS = [
    (b"\xff", "found a file that is not UTF-8 at byte 0"),
    (b"", "found an empty file"),
    (b"x" * 65_537, "found a larger file"),
    ("é".encode() * 32_769, "found a larger file"),
]


@pytest.mark.parametrize(("content", "message"), INSTRUCTIONS)
def test_an_instruction_file_that_is_not_text_is_reported(
    tmp_path: Path, content: bytes, message: str
) -> None:
    reported = findings(tmp_path, {"f.skill.yaml": SENDER, "instructions.md": content})
    expected = '"instruction_file" must be a UTF-8 file of 1 to 65536 bytes'
    assert reported == [f"f.skill.yaml:6:19: error bad-value: {expected}, {message}"]


def test_more_than_a_hundred_inline_tools_are_refused(tmp_path: Path) -> None:
    many = "\n".join(f"  - {{name: t{number}}}" for number in range(101))
    reported = findings(tmp_path, {"s.skill.yaml": skill(f"tool_definitions:\n{many}")})
    expected = '"tool_definitions" must be a list of tool manifests'
    shown = '[{"name": "t0"}, {"name": "t1"}, {"name": "t2"}, {"name": "…'
    limit = "it has 101 items, the limit is 100"
    assert reported == [
        f"s.skill.yaml:6:3: error bad-value: {expected}, found array {shown}; {limit}"
    ]


def test_a_handbook_is_not_a_skill(tmp_path: Path) -> None:
    """B03: a directory with only `SKILL.md`: no skill, no diagnostic."""
    bundle = load(
        write(tmp_path, {}), {"book/SKILL.md": "---\nname: x\n---\n", "a.tool.yaml": TOOL}
    )
    assert (bundle.skills, bundle.skill_count, bundle.diagnostics) == ({}, 0, [])


def test_every_field_has_a_meaning_and_an_expected_value() -> None:
    assert all(each.meaning.endswith(".") and each.kind.expected for each in FIELDS)


def manifest(
    skill_id: str, *required: str, tools: tuple[str, ...] = (), helpers: tuple[str, ...] = ()
) -> SkillManifest:
    return SkillManifest(
        skill_id=skill_id,
        name="S",
        description="d",
        instruction="i",
        requires_skills=required,
        file=f"{skill_id}.skill.yaml",
        line=1,
        folder=".",
        tools=tools,
        script_tools=helpers,
    )


SKILLS = {
    each.skill_id: each
    for each in (
        manifest("a", "b", "d", tools=("t_a",), helpers=("h_a",)),
        manifest("b", "c"),
        manifest("c", "a", tools=("t_c",)),
        manifest("d", "c", "read_dir", "gone", helpers=("h_d", "h_a")),
        manifest("e"),
    )
}
ORDERS = [
    ([], ()),
    (["e"], ("e",)),
    (["a"], ("a", "b", "c", "d", "read_dir", "gone")),
    (["d", "b"], ("d", "c", "a", "b", "read_dir", "gone")),
    (["e", "e", "c"], ("e", "c", "a", "b", "d", "read_dir", "gone")),
]


@pytest.mark.parametrize(("chosen", "order"), ORDERS)
def test_required_skills_come_depth_first_each_once(
    chosen: list[str], order: tuple[str, ...]
) -> None:
    """Selected with it: depth first, in the listed order, each once."""
    assert order_skills(chosen, SKILLS) == order


def test_skills_grant_listed_inline_and_built_in_tools() -> None:
    assert grant(["a"], SKILLS, {"read_dir": ("read_dir",)}) == SkillGrants(
        skills=("a", "b", "c", "d", "read_dir"),
        tools=frozenset({"t_a", "t_c", "read_dir"}),
        script_tools=frozenset({"h_a", "h_d"}),
        missing=("gone",),
    )


def test_a_chain_of_thousands_is_followed_to_its_end() -> None:
    chain = {f"s{n}": manifest(f"s{n}", f"s{n + 1}") for n in range(2000)}
    assert len(order_skills(["s0"], chain)) == 2001


FILES = {
    "web/s.skill.yaml": skill("instruction_file: ./read/me.md", instruction=""),
    "web/read/me.md": "Do it.",
    "web/a.tool.yaml": "",
    "web/p.prompts.yaml": "",
    "web/x.schedule.yaml": "",
    "web/lib/run.mts": "",
    "web/lib/run.js": "",
    "web/.hidden": "",
    "web/penstock.toml": "",
    "web/.env": "",
    "web/prod.env": "",
    "web/.penstock/penstock.db": "",
    "web/data/penstock.db": "",
    "web/data/penstock.db-wal": "",
    "web/data/secret.key": "",
    "web/.git/config": "",
    "web/other/o.skill.yaml": skill(skill_id="o"),
    "web/other/deep/mine.txt": "",
    "web/lib/table.csv": "a,b",
    "web/b": "??",
    "out.txt": "",
}


def test_the_resources_of_a_skill_are_its_own_files(tmp_path: Path) -> None:
    """Except manifests, the `instruction_file`, scripts, hidden files, and other skills."""
    manifest = load(tmp_path, FILES).skills["s"]
    (tmp_path / "web/link.txt").symlink_to("../out.txt")
    (tmp_path / "web/folder").symlink_to("..")
    assert list_resources(tmp_path, manifest) == (
        Resource(resource_id="resource.1", path="b", media_type="application/octet-stream", size=2),
        Resource(resource_id="resource.2", path="lib/table.csv", media_type="text/csv", size=3),
    )


@pytest.mark.slow("two hundred files")
def test_a_skill_has_at_most_two_hundred_resources_by_path(tmp_path: Path) -> None:
    manifest = load(tmp_path, {"s.skill.yaml": skill()}).skills["s"]
    write(tmp_path, {f"{number:03}.txt": "" for number in range(MAX_RESOURCES + 5)})
    resources = list_resources(tmp_path, manifest)
    assert len(resources) == MAX_RESOURCES
    assert (resources[-1].resource_id, resources[-1].path) == ("resource.200", "199.txt")
