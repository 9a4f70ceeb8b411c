"""Front matter: strict YAML, or read line by line."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.diagnostics import Severity
from penstock.manifest.document import Document, SourceRange
from penstock.manifest.front_matter import parse_front_matter, read_loose


def read(text: str) -> Document:
    return read_loose(text, "a.md", first_line=2, failed=SourceRange(line=3, column=8))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: a\nmodel: @coding", {"name": "a", "model": "@coding"}),
        ("description: first: second # not a comment", None),
        ('when: "pass" or "fail"', {"when": '"pass" or "fail"'}),
        ("when: 'it'", {"when": "it"}),
        ('when: "it"', {"when": "it"}),
        ("when: \"it'", {"when": "\"it'"}),
        ("tools: [read, 'write', ]", {"tools": ["read", "write"]}),
        ("tools:\n- read\n- write", {"tools": ["read", "write"]}),
        ("tools:\n  - read\n  - write\nname: a", {"tools": ["read", "write"], "name": "a"}),
        ("tools:", {"tools": None}),
        ("tools:\nname: a", {"tools": None, "name": "a"}),
        (
            "access:\n  read: [src/**]\n  bash:\n    deny:\n      - rm -rf *\n      - curl",
            {"access": {"read": ["src/**"], "bash": {"deny": ["rm -rf *", "curl"]}}},
        ),
        (
            "outputs:\n  - name: a\n    description: first: of two\n  - b",
            {"outputs": [{"name": "a", "description": "first: of two"}, "b"]},
        ),
        ("text: |\n  one\n\n  two\nname: a", {"text": "one\n\ntwo", "name": "a"}),
        ("text: >\n  one\n  two", {"text": "one two"}),
        ("interactive: true\nmax_turns: 3", {"interactive": "true", "max_turns": "3"}),
        ("# a comment\n\n   \nname: a", {"name": "a"}),
        ("", {}),
    ],
)
def test_each_line_is_parsed_as_intended(text: str, expected: dict[str, Any] | None) -> None:
    """A comment is not cut off; one pair of quotes is."""
    if expected is None:
        expected = {"description": "first: second # not a comment"}
    document = read(text)
    assert document.value == expected
    assert [each.code for each in document.problems] == ["front-matter-loose"]


def test_the_warning_names_the_position_where_yaml_failed_and_a_fix() -> None:
    """3 warning: front matter is not strict YAML here; it was read line by line."""
    (finding,) = read("name: a\nmodel: @coding").problems
    assert (finding.line, finding.severity) == (3, Severity.WARNING)
    assert finding.message == "front matter is not strict YAML here; it was read line by line"
    assert finding.suggestion == 'quote the value: model: "@coding"'


@pytest.mark.parametrize(
    "line",
    [
        "what is this",
        "  deeper: than its neighbours",
        "- lonely",
        ": x",
        "name: twice",
        "{a: b}",
        "key with blanks: x",
        "ключ",
    ],
)
def test_a_line_that_is_not_understood_is_skipped_with_a_warning(line: str) -> None:
    document = read(f"name: a\n{line}\ndescription: d")
    assert document.value == {"name": "a", "description": "d"}
    assert [(each.code, each.line) for each in document.problems[1:]] == [("line-ignored", 3)]


def test_keys_and_values_have_positions() -> None:
    document = read("name: a\naccess:\n  read:\n    - src/**")
    assert document.keys["access", "read"] == SourceRange(line=4, column=3)
    assert document.values["access", "read", 0] == SourceRange(line=5, column=7)
    assert document.values["name",] == SourceRange(line=2, column=7)


@pytest.mark.parametrize(
    "text",
    [
        "a:\n" + "".join(f"{'  ' * n}k{n}:\n" for n in range(1, 300)),
        "- " * 10_000,
        "a: [" + "[" * 10_000,
        "\x00\x01: \ud800",
        "a: |",
        "a: |\nb: >",
        "a:\n\t- b\n  - c\n - d\n-",
    ],
)
def test_no_front_matter_raises(text: str) -> None:
    assert isinstance(read(text).value, dict)


def test_lists_nested_too_deeply_stay_strings() -> None:
    """Never raises."""
    deep = read("tools: " + "[" * 5000 + "]" * 5000).value["tools"]
    assert isinstance(deep[0][0][0][0], str)


def test_positions_in_front_matter_are_lines_of_the_file() -> None:
    matter = parse_front_matter("\n---  \nname: x\n---\n\n  Be kind.\n", "x.md")
    assert matter.head.value == {"name": "x"}
    assert matter.head.keys["name",].line == 3
    assert (matter.body, matter.body_line) == ("Be kind.", 6)


def test_a_windows_file_is_read_like_a_unix_file() -> None:
    matter = parse_front_matter("\ufeff---\r\nname: x\r\n---\r\nBe kind.\r\n", "x.md")
    assert (matter.head.value, matter.body) == ({"name": "x"}, "Be kind.")


NONE = '1 no-front-matter: no front matter: the file must begin with a line "---"'
OPEN = '1 front-matter-open: the front matter is not closed: no second line "---"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", NONE),
        ("x", NONE),
        ("name: x\n---\n", NONE),
        (" ---\nname: x\n---\n", NONE),
        ("```\n---\nname: x\n---\n", NONE),
        ("\n\nx", NONE.replace("1", "3", 1)),
        ("---", OPEN),
        ("---\nname: x\n", OPEN),
        ("---\nname: x\n ---\n", OPEN),
        ("---\nname: x\n---\n\udc80", "4 file-encoding: not UTF-8 at character 16"),
    ],
)
def test_a_file_without_front_matter_gets_one_finding(text: str, message: str) -> None:
    """`no-front-matter` / `front-matter-open` (nothing else is reported)."""
    problems = parse_front_matter(text, "x.md").head.problems
    assert [f"{each.line} {each.code}: {each.message}" for each in problems] == [message]


def test_invalid_yaml_is_read_line_by_line_with_one_warning() -> None:
    """The example of the page: `model: @coding` on line 3."""
    matter = parse_front_matter("---\nname: x\nmodel: @coding\n---\n", "x.md")
    assert (matter.head.value, matter.is_loose) == ({"name": "x", "model": "@coding"}, True)
    (warning,) = matter.head.problems
    assert (warning.line, str(warning.severity), warning.code) == (
        3,
        "warning",
        "front-matter-loose",
    )
    assert warning.message == "front matter is not strict YAML here; it was read line by line"
    assert warning.suggestion == 'quote the value: model: "@coding"'


@pytest.mark.parametrize(
    ("head", "expected", "line"),
    [
        ('description: "pass" or "fail"', {"description": '"pass" or "fail"'}, 2),
        ("description: a: b", {"description": "a: b"}, 2),
        ("name: x\ndescription: *bold* words", {"name": "x", "description": "*bold* words"}, 3),
        ("name: !x", {"name": "!x"}, 2),
        ("just words", {}, 2),
        ("- a\n- b", {}, 2),
    ],
)
def test_every_kind_of_yaml_error_leads_to_reading_line_by_line(
    head: str, expected: dict[str, Any], line: int
) -> None:
    """Step 2: if that works and gives a mapping, done. Otherwise it is read line by line."""
    matter = parse_front_matter(f"---\n{head}\n---\n", "x.md")
    assert (matter.head.value, matter.is_loose) == (expected, True)
    assert [each.line for each in matter.head.problems if each.code == "front-matter-loose"] == [
        line
    ]


@pytest.mark.parametrize("head", ["", "\n", "# a comment", "~"])
def test_empty_front_matter_is_an_empty_mapping(head: str) -> None:
    matter = parse_front_matter(f"---\n{head}\n---\nx", "x.md")
    assert (matter.head.value, matter.head.problems, matter.is_loose) == ({}, [], False)


def test_a_duplicate_key_is_an_error_and_does_not_lead_to_reading_line_by_line() -> None:
    """2.1: a key twice is an error."""
    matter = parse_front_matter("---\nname: x\nname: y\n---\n", "x.md")
    assert [each.code for each in matter.head.problems] == ["yaml-duplicate-key"]


@given(st.text())
def test_no_file_raises(text: str) -> None:
    for each in (text, f"---\n{text}\n---\n{text}"):
        head = parse_front_matter(each, "x.md").head
        assert head.is_read or head.problems
