"""What `.pi/flows/config.yaml` says."""

from pathlib import Path
from typing import Any

import pytest

from penstock.flows.project.constants import FILE, read_constants
from tests.flows.texts import finding_lines


def laid(root: Path, content: bytes) -> Path:
    (root / FILE).parent.mkdir(parents=True)
    (root / FILE).write_bytes(content)
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
    found = read_constants(laid(tmp_path, text.encode()))
    assert (values.items() <= found.values.items(), found.diagnostics) == (True, [])


@pytest.mark.parametrize(
    ("content", "said"),
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
def test_what_is_no_constant_is_told_and_left_out(
    tmp_path: Path, content: bytes, said: str
) -> None:
    found = read_constants(laid(tmp_path, content))
    (finding,) = finding_lines(found.diagnostics)
    assert finding.startswith(said)
    assert set(found.values) <= {"tone"}


def test_a_project_without_the_file_has_none(tmp_path: Path) -> None:
    assert read_constants(tmp_path).diagnostics == ()


def test_a_file_that_lies_elsewhere_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "out.yaml").write_text("key: secret\n")
    root = tmp_path / "project"
    (root / FILE).parent.mkdir(parents=True)
    (root / FILE).symlink_to(tmp_path / "out.yaml")
    found = read_constants(root)
    assert (found.values, len(found.diagnostics)) == ({}, 1)
