"""YAML without surprises, and a line for every value."""

import pytest

from penstock.manifest.source import Place, parse_front_matter, parse_yaml

SCALARS = [
    ("yes", "yes"),
    ("on", "on"),
    ("1:30", "1:30"),
    ("2020-01-01", "2020-01-01"),
    ("true", True),
    ("'true'", "true"),
    ("~", None),
    ("", None),
    ("12", 12),
    ("0x1f", 31),
    ("1.5e3", 1500.0),
    ("1_000", "1_000"),
    ("!!str 5", "5"),
]


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    document = parse_yaml(f"a: {text}", "x.yaml")
    assert document.value == {"a": value}
    assert not document.problems


def test_every_value_knows_its_place() -> None:
    document = parse_yaml("a:\n  - b: 1\n    c: [x, y]\n", "x.yaml", first_line=10)
    assert document.value == {"a": [{"b": 1, "c": ["x", "y"]}]}
    assert document.keys["a", 0, "c"] == Place(line=12, column=5)
    assert document.values["a", 0, "c", 1] == Place(line=12, column=12)


REFUSED = [
    ("a: [1", "2:1: error yaml-syntax: not valid YAML: did not find expected ',' or ']'"),
    ("a: &x 1", "1:4: error yaml-alias: anchors, aliases, merge keys and tags are not allowed"),
    ("a: *x", "1:4: error yaml-alias: anchors, aliases, merge keys and tags are not allowed"),
    (
        "a: !!python/object:os.x 1",
        "1:4: error yaml-alias: anchors, aliases, merge keys and tags are not allowed",
    ),
    ("<<: {}", "1:1: error yaml-alias: anchors, aliases, merge keys and tags are not allowed"),
    ("a: 1\na: 2", '2:1: error yaml-duplicate-key: key "a" appears twice; first at line 1'),
    ("? [a]\n: 1", "1:3: error yaml-syntax: not valid YAML: a key must be a text"),
    (
        "a: 1\n---\nb: 1",
        "2:1: error yaml-many-documents: one document is wanted; found another one",
    ),
    ("[" * 100_000, "1:66: error yaml-syntax: nested more than 64 levels deep"),
    (
        "a: \x01",
        (
            "1:1: error yaml-syntax: not valid YAML: unacceptable character #x0001: "
            "control characters are not allowed"
        ),
    ),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_is_not_allowed_is_named_with_its_place(text: str, said: str) -> None:
    document = parse_yaml(text, "x.yaml")
    assert [str(each) for each in document.problems] == [f"x.yaml:{said}"]


def test_front_matter_keeps_the_lines_of_its_file() -> None:
    matter = parse_front_matter("\n---  \nname: x\n---\n\nBe kind.\n", "x.md")
    assert matter.head.value == {"name": "x"}
    assert matter.head.keys["name",].line == 3
    assert matter.body == "Be kind."


def test_a_windows_file_reads_the_same() -> None:
    matter = parse_front_matter("\ufeff---\r\nname: x\r\n---\r\nBe kind.\r\n", "x.md")
    assert (matter.head.value, matter.body) == ({"name": "x"}, "Be kind.")


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "no-front-matter"), ("x", "no-front-matter"), ("---\nx", "front-matter-open")],
)
def test_a_file_without_front_matter_is_a_finding(text: str, code: str) -> None:
    assert [each.code for each in parse_front_matter(text, "x.md").head.problems] == [code]
