"""Manifests from their bytes."""

import os
from pathlib import Path

import pytest

from tests.kit.manifests import TOOL, findings, load, tool, write

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


@pytest.mark.parametrize(("content", "said"), BYTES, ids=range(len(BYTES)))
def test_what_is_no_manifest_is_a_finding(tmp_path: Path, content: bytes, said: str) -> None:
    assert findings(tmp_path, {"a.tool.yaml": content}) == [f"a.tool.yaml:{said}"]


def test_two_documents_in_a_file_are_one_too_many(tmp_path: Path) -> None:
    """B01: two documents in one file: `yaml-many-documents`. B02: the same."""
    files = {"a.tool.yaml": f"{tool()}---\n{TOOL}---\n", "s.skill.yaml": "a: 1\n---\nb: 1"}
    said = "error yaml-many-documents: one manifest per file; found"
    found = [each for each in findings(tmp_path, files) if "documents" in each]
    assert found == [
        f"a.tool.yaml:5:1: {said} 3 documents",
        f"s.skill.yaml:2:1: {said} 2 documents",
    ]


def test_a_key_that_stands_twice_is_said_with_its_first_line(tmp_path: Path) -> None:
    assert findings(tmp_path, {"a.tool.yaml": tool("labels: []\nlabels: [a]")}) == [
        'a.tool.yaml:6:1: error yaml-duplicate-key: key "labels" appears twice; first at line 5'
    ]


@pytest.mark.parametrize("word", ["yes", "on", "True", "y", "no"])
def test_only_true_and_false_are_booleans(tmp_path: Path, word: str) -> None:
    """YAML 1.2 scalars (`on`, `yes`, `no` are strings)."""
    found = findings(tmp_path, {"a.tool.yaml": tool(f"direct_call: {word}")})
    assert bool(found) == (word != "True")


def test_a_byte_order_mark_and_windows_lines_change_nothing(tmp_path: Path) -> None:
    text = "\ufeff" + tool("timeout: 1").replace("\n", "\r\n")
    (found,) = findings(tmp_path, {"a.tool.yaml": text})
    assert found.startswith("a.tool.yaml:5:1: error unknown-key")


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tool.yaml")
    (tmp_path / "b.tool.yaml").symlink_to("b.tool.yaml")
    (tmp_path / "c.tool.yaml").symlink_to("nowhere")
    write(tmp_path, {"d.tool.yaml/x": ""})
    assert findings(tmp_path, {}) == [
        "a.tool.yaml:1:1: error file-unreadable: the file cannot be read: it is no file",
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
def test_whatever_a_manifest_becomes_its_findings_stand_in_it(tmp_path: Path, piece: str) -> None:
    whole = tool("vault: [{key: k, scope_kinds: [shared]}]\nlimits: {memory_mb: 16}")
    for start in range(0, len(whole), 5):
        text = whole[:start] + piece + whole[start + start % 7 :]
        bundle = load(tmp_path, {"a.tool.yaml": text})
        assert bundle.diagnostics or bundle.tools
        assert all(1 <= each.line <= text.count("\n") + 1 for each in bundle.diagnostics)


LOOP = "Too many levels of symbolic links"


def test_a_manifest_that_leads_out_of_the_project_is_not_read(tmp_path: Path) -> None:
    root, secret = tmp_path / "project", tmp_path / "secret"
    root.mkdir()
    secret.write_text("token")
    write(root, {"real/b.yaml.txt": tool()})
    for name, target in {"a.tool.yaml": "../secret", "b.tool.yaml": "real/b.yaml.txt"}.items():
        (root / name).symlink_to(target)
    (root / "loop.tool.yaml").symlink_to("loop.tool.yaml")
    bundle = load(root, {})
    said = '"a.tool.yaml" leads out of the project through a symlink; put a copy in its place'
    assert [str(each) for each in bundle.diagnostics] == [
        f"a.tool.yaml:1:1: error path-escape: {said}",
        f"loop.tool.yaml:1:1: error file-unreadable: the file cannot be read: {LOOP}",
    ]
    assert list(bundle.tools) == ["a"]
