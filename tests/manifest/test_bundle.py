"""All manifests of a project together."""

import re
from pathlib import Path

from penstock.core.diagnostics import Diagnostic, Severity
from penstock.manifest.bundle import load_bundle
from tests.kit.manifests import TOOL, load, skill, tool

MISTAKES = {
    "a/one.tool.yaml": """name: one two
description: ""
input_schema: {type: object, properties: {a: {type: text}}}
timeout: 30s
timeout_ms: 30s
retry_policy: {max_attempts: 0}
vault:
  - key: k
    scope_kinds: [task]
state:
  - name: n
    scope_kind: shared
direct_call: maybe
execution:
  type: script
  script_file: ../x.mts
labels: [a]
labels: [b]
egress: ["a b"]
effect: destroy
limits: {memory_mb: 1}
""",
    "b.skill.yaml": """skill_id: b
name: B
description: d
version: 2
tools: [read_text_fil]
requires_skills: [b]
""",
    "c.tool.yml": "",
    "d.tool.yaml": "- x",
}


def test_twenty_mistakes_are_twenty_findings_at_their_lines(tmp_path: Path) -> None:
    """All problems of a bundle are found in one pass."""
    found = load(tmp_path, MISTAKES).diagnostics
    assert [(each.file[0], each.line, each.column, each.code) for each in found] == [
        ("a", 1, 7, "bad-id"),
        ("a", 2, 14, "bad-value"),
        ("a", 3, 53, "bad-schema"),
        ("a", 4, 1, "unknown-key"),
        ("a", 5, 13, "wrong-type"),
        ("a", 6, 30, "bad-value"),
        ("a", 9, 18, "bad-value"),
        ("a", 11, 5, "missing-key"),
        ("a", 11, 5, "state-scope-id"),
        ("a", 13, 14, "wrong-type"),
        ("a", 16, 16, "path-traversal"),
        ("a", 18, 1, "yaml-duplicate-key"),
        ("a", 19, 10, "bad-value"),
        ("a", 20, 9, "bad-value"),
        ("a", 21, 21, "bad-value"),
        ("b", 1, 1, "exactly-one"),
        ("b", 4, 10, "wrong-type"),
        ("b", 5, 9, "unknown-tool-ref"),
        ("b", 6, 19, "skill-cycle"),
        ("c", 1, 1, "near-miss-name"),
        ("d", 1, 1, "yaml-not-mapping"),
    ]


def test_what_is_broken_is_known_and_takes_no_part(tmp_path: Path) -> None:
    """D10: a manifest with an error diagnostic is *broken*; everything else works."""
    inline = "tool_definitions:\n- " + tool(name="i").strip().replace("\n", "\n  ")
    files = {
        "a.tool.yaml": TOOL,
        "b.tool.yaml": tool("labels: 5", name="b"),
        "c.tool.yaml": "[",
        "s.skill.yaml": skill(f"version: 1\n{inline}"),
        "t.skill.yaml": skill("tools: [a, b]", skill_id="t"),
    }
    bundle = load(tmp_path, files)
    assert (list(bundle.tools), list(bundle.skills)) == (["a"], ["t"])
    assert (list(bundle.broken_tools), list(bundle.broken_skills)) == (["b", "i"], ["s"])
    assert [each.code for each in bundle.broken_tools["i"]] == ["wrong-type"]
    assert (bundle.tool_count, bundle.skill_count) == (4, 2)
    assert [each.tool_id for each in bundle.every_tool] == ["a", "b", "i"]


def test_the_permissions_of_a_project_are_those_that_are_named(tmp_path: Path) -> None:
    """`local.permissions`: all named in the bundle."""
    catalog = "groups: [{group_id: g, name: G, permissions: [{permission_id: c, name: C}]}]"
    files = {
        "a.tool.yaml": tool("requires_permissions: [c, chat]"),
        "s.skill.yaml": skill("requires_permissions: [admin]"),
        "p.permissions.yaml": catalog,
    }
    assert load(tmp_path, files).named_permissions == {"c", "chat", "admin"}


def test_a_warning_breaks_nothing(tmp_path: Path) -> None:
    """Only an error does."""
    bundle = load(tmp_path, {"a.tool.yaml": tool("revert: b")})
    assert (list(bundle.tools), [each.code for each in bundle.diagnostics]) == (
        ["a"],
        ["reserved-key"],
    )


def finding(severity: Severity) -> Diagnostic:
    return Diagnostic(
        code="import-bare", message="no", file="a.mts", line=3, column=8, severity=severity
    )


def test_findings_of_scripts_join_and_break_their_tool_alone(tmp_path: Path) -> None:
    bundle = load(tmp_path, {"a.tool.yaml": TOOL, "b.tool.yaml": tool(name="b")})
    error, warning = finding(Severity.ERROR), finding(Severity.WARNING)
    joined = bundle.with_findings({"a": [error], "b": [warning]})
    assert (list(joined.tools), list(joined.broken_tools)) == (["b"], ["a"])
    assert joined.broken_tools["a"] == [error]
    assert list(joined.diagnostics) == [error, warning]
    assert list(bundle.tools) == ["a", "b"]


def test_a_project_without_manifests_is_fine(tmp_path: Path) -> None:
    bundle = load_bundle(tmp_path)
    assert (bundle.tools, bundle.skills, bundle.diagnostics) == ({}, {}, [])


PAGE = Path(__file__).parents[2] / "docs" / "manifests.md"


def test_the_examples_of_the_page_for_authors_load_without_a_finding(tmp_path: Path) -> None:
    tool_example, skill_example = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    files = {
        "a.tool.yaml": tool_example,
        "s.skill.yaml": skill_example,
        "scripts/read_price.mts": "",
    }
    assert load(tmp_path, files).diagnostics == []
