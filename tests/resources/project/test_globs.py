"""Patterns for paths: `*` and `?` inside a name, `**` across names, and never slow."""

import pytest

from penstock.resources.project.globs import folded, glob, name_pattern, union


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("src/**", "src/a/b.py", True),
        ("src/**", "src", False),
        ("src/**", "srcs/a", False),
        ("docs/*.md", "docs/x.md", True),
        ("docs/*.md", "docs/sub/x.md", False),
        ("docs/*.md", "a/docs/x.md", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("src/", "src/x/y", True),
        ("src/", "src", False),
        ("src/**.py", "src/b.py", True),
        ("src/**.py", "src/a/b.py", True),
        ("./a.txt", "a.txt", True),
        ("?", "é", True),
        ("?", "/", False),
        ("*", ".hidden", True),
        ("a[b]", "a[b]", True),
        ("*", "two\nlines", True),
        ("/etc/**", "etc/x", False),
        ("../x", "x", False),
        ("src/../**", "x", False),
        ("", "x", False),
        ("/", "x", False),
    ],
)
def test_a_pattern_fits_whole_paths(pattern: str, path: str, *, fits: bool) -> None:
    """Shows "anchored: `*` and `?` without `/`, `**` with; … ends in `/` means all below"."""
    assert glob(pattern).fits(path) is fits


@pytest.mark.parametrize(
    ("pattern", "folder", "may"),
    [
        ("docs/*.md", "", True),
        ("docs/*.md", "docs", True),
        ("docs/*.md", "docs/sub", False),
        ("docs/*.md", "tests", False),
        ("src/**", "src/a", True),
        ("a/b", "a/b", False),
        ("**/x", "anything", True),
        ("/x", "", False),
    ],
)
def test_a_folder_is_known_in_which_nothing_can_fit(
    pattern: str, folder: str, *, may: bool
) -> None:
    assert glob(pattern).may_fit_below(folder) is may


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [("src/gen/**", "src/gen"), ("docs/*.md", "docs"), ("**", ""), ("a.txt", "a.txt"), ("b/", "b")],
)
def test_the_literal_prefix_ends_before_the_first_pattern(pattern: str, literal: str) -> None:
    assert glob(pattern).literal == literal


@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "**a" * 60 + "b", "**/" * 60 + "b"])
def test_many_stars_take_no_time(pattern: str) -> None:
    assert not glob(pattern).fits("/".join(["a" * 200] * 20))


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[^a]", "b", True),
        ("[]]", "]", True),
        ("[[]", "[", True),
        ("[z-a]", "z", False),
        ("[", "[", True),
        ("\\*", "*", True),
        ("\\*", "x", False),
        ("a\\", "a\\", True),
    ],
)
def test_classes_and_escapes_match_as_in_git(pattern: str, name: str, *, fits: bool) -> None:
    assert bool(name_pattern(pattern, classes=True).fullmatch(name)) is fits


PATTERNS = ("a", "*.py", "a/**", "**/*.py", "a/**/b?c", "**", "a**b", "*", "x/../y", "/a", "dir/")
PATHS = (
    *("a", "a/b", "b.py", "a/b/c.py", "a/bxc", "a/x/y/bxc", "axb", "ax/yb", "dir", "dir/x/y"),
    *("x/../y", "", "a\nb", "a/b\n.py", ".py", "aab/b"),
)


@pytest.mark.parametrize("patterns", [*((each,) for each in PATTERNS), PATTERNS[:5], ()])
def test_a_union_matches_like_any_of_its_patterns(patterns: tuple[str, ...]) -> None:
    globs = [glob(each) for each in patterns]
    one = union(globs)
    fitting = [path for path in PATHS if one.fullmatch(path)]
    assert fitting == [path for path in PATHS if any(each.fits(path) for each in globs)]


@pytest.mark.parametrize(
    "path",
    [
        "agents/x.tool.yaml",
        "Agents/X.Tool.YAML",
        "AGENTS/x.tool.yaml.",
        "agents. /x.tool.yaml ..",
        "agents/x.tool.yaml:stream",
        "agents/x.tool.yaml::$DATA",
        "agents/x\u200d.tool.yaml",
        "\ufeffagents/x.tool.yaml",
        "agent\u017f/x.tool.yaml",
        "\uff41gents/x.tool.yaml",
    ],
)
def test_other_spellings_are_one_name(path: str) -> None:
    assert folded(path) == "agents/x.tool.yaml"


@pytest.mark.parametrize(
    ("one", "other"), [("caf\u00e9", "cafe\u0301"), ("STRASSE", "straße"), ("\u212a", "k")]
)
def test_forms_of_one_text_are_one_name(one: str, other: str) -> None:
    assert folded(one) == folded(other)


@pytest.mark.parametrize("path", ["", ".", "a/..", "../x", ".env", ".pi/flows", "a.b/c.d"])
def test_an_ordinary_spelling_is_unchanged(path: str) -> None:
    assert folded(path) == path


def test_names_of_other_bytes_are_folded_too() -> None:
    assert folded("X\udcff.TOOL.yaml") == "x\udcff.tool.yaml"
