"""Handbooks of a project: every mistake at its line."""

from pathlib import Path

import pytest

from penstock.manifest.handbook import FILE_BYTES, find_handbooks
from penstock.manifest.handbook_checks import check_handbooks

FOLDERS = ("handbooks", ".pi/flows/skills")
NO_TEXT = f"is not text of at most {FILE_BYTES} bytes"
ONE = "---\nname: docs\ndescription: d\nfiles: [a.md]\n---\n"


def laid(root: Path, index: str | bytes, folder: str = "handbooks/docs") -> Path:
    place = root / folder
    place.mkdir(parents=True)
    (place / "a.md").write_text("one")
    content = index if isinstance(index, bytes) else index.encode()
    (place / "SKILL.md").write_bytes(content)
    return place


def said_of(root: Path) -> list[str]:
    reported = check_handbooks(root, FOLDERS)
    return [
        f"{each.line}:{each.column} {each.severity} {each.code}: {each.text}" for each in reported
    ]


@pytest.mark.parametrize(
    "index",
    [
        ONE,
        "\ufeff\n" + ONE,
        "# Docs\n\nfiles:\n- `a.md` - the first\n",
        "---\nfiles: a.md\nlicense: MIT\n---\n",
        ONE.replace("\n", "\r\n"),
    ],
)
def test_a_valid_handbook_has_no_findings(tmp_path: Path, index: str) -> None:
    laid(tmp_path, index)
    assert said_of(tmp_path) == []


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (
            "---\nname: docs\nfiles:\n  - a.md\n  - am.md\n---\n",
            (
                '5:5 warning handbook-file: file "am.md" is listed but does not exist; '
                'did you mean "a.md"?'
            ),
        ),
        (
            "\n---\nfiles:\n- {description: one, file: ../x.md}\n---\n",
            '4:28 warning handbook-file: file "../x.md" leaves the directory of the handbook',
        ),
        (
            "---\nname: x\n---\n# Docs\n\n**files:**\n\n- a.md\n- `no.txt` - none\n",
            '9:3 warning handbook-file: file "no.txt" is listed but does not exist',
        ),
        (
            "files:\n- a.md\n- a.md\n",
            '3:3 warning duplicate-file: file "a.md" is listed twice; first at line 2',
        ),
        (
            "files:\n- large.md\n",
            f'2:3 warning handbook-file: file "large.md" {NO_TEXT}',
        ),
        (
            "files:\n- link.md\n",
            '2:3 warning handbook-file: file "link.md" leaves the directory of the handbook',
        ),
        (
            "files:\n- .\n",
            f'2:3 warning handbook-file: file "." {NO_TEXT}',
        ),
        (
            "---\nname: 3\nfiles: [a.md]\n---\n",
            '2:7 warning wrong-type: "name" must be text, found number 3',
        ),
        (
            "---\nfiles:\n  - a.md\n  - {x: 1}\n---\n",
            (
                '4:5 warning wrong-type: "files[1]" must be a file name, or {name, description}, '
                'found object {"x": 1}'
            ),
        ),
        (
            "---\nmodel: @x\nfiles: [a.md]\n---\n",
            (
                "2:8 warning front-matter-loose: front matter is not strict YAML here; it was read "
                'line by line; quote the value: model: "@x"'
            ),
        ),
        (
            "# Docs\n",
            (
                "1:1 warning handbook-no-files: no files are listed: skill_read can read nothing "
                "of this handbook; add files: with the names of its files"
            ),
        ),
        (b"\xff", f"1:1 error file-unreadable: SKILL.md {NO_TEXT}"),
    ],
)
def test_each_mistake_is_reported_at_its_line(
    tmp_path: Path, index: str | bytes, expected: str
) -> None:
    """§16 for flows, agents and handbooks, with true line numbers."""
    place = laid(tmp_path, index)
    (place / "large.md").write_bytes(b"x" * (FILE_BYTES + 1))
    (place / "link.md").symlink_to("/etc/hosts")
    assert said_of(tmp_path) == [expected]


def test_an_invalid_list_of_files_leaves_nothing_to_read(tmp_path: Path) -> None:
    laid(tmp_path, "---\nname: x\nfiles: 3\n---\n")
    message = said_of(tmp_path)
    assert (
        message[0] == '3:8 warning wrong-type: "files" must be a list of file names, found number 3'
    )
    assert message[1].startswith("3:1 warning handbook-no-files")


def test_front_matter_that_is_not_closed_is_read_as_text(tmp_path: Path) -> None:
    laid(tmp_path, "---\nfiles:\n- a.md\n")
    assert said_of(tmp_path) == [
        (
            "1:1 warning front-matter-open: the front matter is not closed: no second line "
            '"---"; it is read as text'
        )
    ]


def test_a_directory_without_an_index_is_not_a_handbook(tmp_path: Path) -> None:
    (tmp_path / "handbooks/empty").mkdir(parents=True)
    (finding,) = check_handbooks(tmp_path, FOLDERS)
    assert (finding.file, finding.code) == ("handbooks/empty/SKILL.md", "handbook-no-index")


def test_the_first_of_two_handbooks_with_one_name_is_used(tmp_path: Path) -> None:
    """D5. First hit wins."""
    laid(tmp_path, ONE)
    laid(tmp_path, "---\nname: other\nfiles: a.md\n---\n", "handbooks/b")
    laid(tmp_path, ONE, ".pi/flows/skills/more")
    (finding,) = check_handbooks(tmp_path, FOLDERS)
    assert (finding.file, finding.line) == (".pi/flows/skills/more/SKILL.md", 2)
    assert finding.text == 'skill "docs" is hidden by the one in handbooks/docs/SKILL.md'


def test_links_that_lead_out_or_form_a_loop_are_reported(tmp_path: Path) -> None:
    round_, out = laid(tmp_path, ONE), tmp_path / "handbooks/out"
    (round_ / "a.md").unlink()
    (round_ / "a.md").symlink_to("a.md")
    out.mkdir()
    (tmp_path / "secret").write_text("token")
    (out / "SKILL.md").symlink_to("../../secret")
    assert said_of(tmp_path) == [
        f'4:9 warning handbook-file: file "a.md" {NO_TEXT}',
        "1:1 error path-escape: SKILL.md leads out of its folder through a symlink",
    ]
    assert find_handbooks([tmp_path / "handbooks"]).names == ["docs"]


def test_a_handbook_outside_the_project_is_not_the_projects(tmp_path: Path) -> None:
    root = tmp_path / "project"
    laid(root, ONE)
    outside = laid(tmp_path, ONE.replace("docs", "out"), "elsewhere/out")
    (root / "handbooks/out").symlink_to(outside)
    (root / "handbooks/twin").symlink_to("docs")
    (root / ".pi/flows").mkdir(parents=True)
    (root / ".pi/flows/skills").symlink_to(outside.parent)
    assert [str(each) for each in check_handbooks(root, FOLDERS) if each.code != "hidden"] == [
        f'{file}:1:1: error path-escape: "{file}" leads out of the project through a symlink; '
        "put a copy in its place"
        for file in ("handbooks/out", ".pi/flows/skills")
    ]
    assert find_handbooks([root / each for each in FOLDERS], root).names == ["docs"]


@pytest.mark.parametrize("part", ["[", "[](", "[x]("])
def test_unclosed_brackets_take_linear_time(tmp_path: Path, part: str) -> None:
    laid(tmp_path, "files:\n- " + part * (FILE_BYTES // 4))
    assert said_of(tmp_path) != []
