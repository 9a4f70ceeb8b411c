"""All manifests of a project together."""

import os
import re
from pathlib import Path

import pytest

from penstock.core.diagnostics import Diagnostic, Severity
from penstock.manifest.bundle import load_bundle
from tests.kit.manifests import TOOL, findings, load, skill, tool, write

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


def test_twenty_mistakes_give_twenty_findings_at_their_lines(tmp_path: Path) -> None:
    """All problems of a bundle are found in one pass."""
    reported = load(tmp_path, MISTAKES).diagnostics
    assert [(each.file[0], each.line, each.column, each.code) for each in reported] == [
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


def test_a_broken_manifest_is_known_by_its_id_and_not_used(tmp_path: Path) -> None:
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


def test_the_permissions_of_a_project_are_those_of_its_manifests(tmp_path: Path) -> None:
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
    bundle = load(tmp_path, {"a.tool.yaml": tool("trust: ask")})
    assert (list(bundle.tools), [each.code for each in bundle.diagnostics]) == (
        ["a"],
        ["reserved-key"],
    )


def finding(severity: Severity) -> Diagnostic:
    return Diagnostic(
        code="import-bare", message="no", file="a.mts", line=3, column=8, severity=severity
    )


def test_findings_of_a_script_break_only_its_tool(tmp_path: Path) -> None:
    bundle = load(tmp_path, {"a.tool.yaml": TOOL, "b.tool.yaml": tool(name="b")})
    error, warning = finding(Severity.ERROR), finding(Severity.WARNING)
    joined = bundle.with_findings({"a": [error], "b": [warning]})
    assert (list(joined.tools), list(joined.broken_tools)) == (["b"], ["a"])
    assert joined.broken_tools["a"] == [error]
    assert list(joined.diagnostics) == [error, warning]
    assert list(bundle.tools) == ["a", "b"]


def test_a_project_without_manifests_has_no_findings(tmp_path: Path) -> None:
    bundle = load_bundle(tmp_path)
    assert (bundle.tools, bundle.skills, bundle.diagnostics) == ({}, {}, [])


PAGE = Path(__file__).parents[2] / "docs" / "manifests.md"


def test_the_examples_of_the_authors_page_have_no_findings(tmp_path: Path) -> None:
    tool_example, skill_example = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    files = {
        "a.tool.yaml": tool_example,
        "s.skill.yaml": skill_example,
        "scripts/read_price.mts": "",
    }
    assert load(tmp_path, files).diagnostics == []


BYTES = [
    (b"", "1:1: error yaml-not-mapping: a manifest must be a mapping, found null"),
    (b"- a", '1:1: error yaml-not-mapping: a manifest must be a mapping, found array ["a"]'),
    (
        b"\n\n text",
        '3:2: error yaml-not-mapping: a manifest must be a mapping, found string "text"',
    ),
    (b"name: \xe9", "1:1: error file-encoding: not UTF-8 at byte 6"),
    (b"\xff\xfen\0", "1:1: error file-encoding: not UTF-8 at byte 0"),
    (
        b"#" * 262_145,
        "1:1: error file-too-large: the manifest has 262145 bytes; the limit is 262144",
    ),
    (
        b"name: \0",
        (
            "1:7: error yaml-syntax: not valid YAML: unacceptable character #x0000: "
            "control characters are not allowed"
        ),
    ),
    (b"a: [", "1:5: error yaml-syntax: not valid YAML: did not find expected node content"),
    (b"{" * 200_000, "1:2: error yaml-syntax: not valid YAML: a key must be a text"),
    (
        b"[" * 200_000,
        "1:66: error yaml-syntax: not valid YAML: nested more than 64 levels deep",
    ),
    (
        b"a: &a [x]\nb: [*a, *a]",
        (
            "1:4: error yaml-alias: anchors, aliases, merge keys and tags are not allowed "
            "in a manifest"
        ),
    ),
]


@pytest.mark.parametrize(("content", "message"), BYTES, ids=range(len(BYTES)))
def test_content_that_is_not_a_manifest_is_reported(
    tmp_path: Path, content: bytes, message: str
) -> None:
    assert findings(tmp_path, {"a.tool.yaml": content}) == [f"a.tool.yaml:{message}"]


def test_a_second_document_in_a_file_is_reported(tmp_path: Path) -> None:
    """B01: two documents in one file: `yaml-many-documents`. B02: the same."""
    files = {"a.tool.yaml": f"{tool()}---\n{TOOL}---\n", "s.skill.yaml": "a: 1\n---\nb: 1"}
    message = "error yaml-many-documents: one manifest per file; found"
    reported = [each for each in findings(tmp_path, files) if "documents" in each]
    assert reported == [
        f"a.tool.yaml:5:1: {message} 3 documents",
        f"s.skill.yaml:2:1: {message} 2 documents",
    ]


def test_a_duplicate_key_is_reported_with_its_first_line(tmp_path: Path) -> None:
    assert findings(tmp_path, {"a.tool.yaml": tool("labels: []\nlabels: [a]")}) == [
        'a.tool.yaml:6:1: error yaml-duplicate-key: key "labels" appears twice; first at line 5'
    ]


@pytest.mark.parametrize("word", ["yes", "on", "True", "y", "no"])
def test_only_true_and_false_are_booleans(tmp_path: Path, word: str) -> None:
    """YAML 1.2 scalars (`on`, `yes`, `no` are strings)."""
    reported = findings(tmp_path, {"a.tool.yaml": tool(f"direct_call: {word}")})
    assert bool(reported) == (word != "True")


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    text = "\ufeff" + tool("timeout: 1").replace("\n", "\r\n")
    (finding,) = findings(tmp_path, {"a.tool.yaml": text})
    assert finding.startswith("a.tool.yaml:5:1: error unknown-key")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tool.yaml")
    (tmp_path / "b.tool.yaml").symlink_to("b.tool.yaml")
    (tmp_path / "c.tool.yaml").symlink_to("nowhere")
    write(tmp_path, {"d.tool.yaml/x": ""})
    assert findings(tmp_path, {}) == [
        "a.tool.yaml:1:1: error file-unreadable: the file cannot be read: it is not a file",
        (
            "b.tool.yaml:1:1: error file-unreadable: the file cannot be read: "
            "Too many levels of symbolic links"
        ),
        (
            "c.tool.yaml:1:1: error file-unreadable: the file cannot be read: "
            "No such file or directory"
        ),
    ]


PIECES = [
    "5",
    "[]",
    "{}",
    "''",
    "[[1]]",
    '"\\0"',
    "~",
    "&a b",
    "*a",
    "!!x y",
    "..",
    "\n- a",
    "é",
    "1e999",
]


@pytest.mark.parametrize("piece", PIECES)
def test_findings_have_positions_inside_any_mutated_manifest(tmp_path: Path, piece: str) -> None:
    whole = tool("vault: [{key: k, scope_kinds: [shared]}]\nlimits: {memory_mb: 16}")
    for start in range(0, len(whole), 5):
        text = whole[:start] + piece + whole[start + start % 7 :]
        bundle = load(tmp_path, {"a.tool.yaml": text})
        assert bundle.diagnostics or bundle.tools
        assert all(1 <= each.line <= text.count("\n") + 1 for each in bundle.diagnostics)


LOOP = "Too many levels of symbolic links"


def test_a_manifest_that_links_out_of_the_project_is_not_read(tmp_path: Path) -> None:
    root, secret = tmp_path / "project", tmp_path / "secret"
    root.mkdir()
    secret.write_text("token")
    write(root, {"real/b.yaml.txt": tool()})
    for name, target in {"a.tool.yaml": "../secret", "b.tool.yaml": "real/b.yaml.txt"}.items():
        (root / name).symlink_to(target)
    (root / "loop.tool.yaml").symlink_to("loop.tool.yaml")
    bundle = load(root, {})
    message = '"a.tool.yaml" leads out of the project through a symlink; put a copy in its place'
    assert [str(each) for each in bundle.diagnostics] == [
        f"a.tool.yaml:1:1: error path-escape: {message}",
        f"loop.tool.yaml:1:1: error file-unreadable: the file cannot be read: {LOOP}",
    ]
    assert list(bundle.tools) == ["a"]
