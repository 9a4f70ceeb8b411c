"""Front matter as people write it."""

from typing import Any

import pytest

from penstock.core.diagnostics import Severity
from penstock.manifest.yaml.lenient_front_matter import read_loose
from penstock.manifest.yaml.source import Document, SourceRange


def read(text: str) -> Document:
    return read_loose(text, "a.md", first_line=2, failed=SourceRange(line=3, column=8))


@pytest.mark.parametrize(
    ("text", "wanted"),
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
def test_each_line_means_what_its_author_meant(text: str, wanted: dict[str, Any] | None) -> None:
    """A comment is not cut off; one pair of quotes is."""
    if wanted is None:
        wanted = {"description": "first: second # not a comment"}
    document = read(text)
    assert document.value == wanted
    assert [each.code for each in document.problems] == ["front-matter-loose"]


def test_it_says_where_yaml_gave_up_and_what_to_do() -> None:
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
def test_what_is_not_understood_is_left_out_and_said(line: str) -> None:
    document = read(f"name: a\n{line}\ndescription: d")
    assert document.value == {"name": "a", "description": "d"}
    assert [(each.code, each.line) for each in document.problems[1:]] == [("line-ignored", 3)]


def test_keys_and_values_know_where_they_stand() -> None:
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
def test_no_text_breaks_it(text: str) -> None:
    assert isinstance(read(text).value, dict)


def test_lists_in_lists_without_end_stay_texts() -> None:
    """Never raises."""
    deep = read("tools: " + "[" * 5000 + "]" * 5000).value["tools"]
    assert isinstance(deep[0][0][0][0], str)
