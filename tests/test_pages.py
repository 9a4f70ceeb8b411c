"""Pages and docstrings name files, decisions and links that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "penstock"
OF_PROJECTS = {"tools/NAME", "tools/_prices"}
"""Files of an example project that look like modules of penstock."""


def test_every_file_that_a_page_names_exists() -> None:
    """`package/file` and `tests/...` anywhere; before its first heading, its list of files."""
    packages = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
    docs = ROOT / "docs"
    guides = sorted((docs / "packages").glob("*.md"))
    assert {each.stem for each in guides} <= set(packages)
    pages = [ROOT / "AGENTS.md", ROOT / "SECURITY.md", docs / "words.md", *guides]
    wrong = []
    for page in pages:
        text = page.read_text()
        named = re.findall(rf"`((?:{'|'.join(packages)})/[\w/]+|tests/[\w/]+(?:\.py)?)`", text)
        heads = re.findall(r"^- (`\w+`(?:, `\w+`)*)", text.partition("\n## ")[0], re.MULTILINE)
        named += [f"{page.stem}/{each}" for head in heads for each in re.findall(r"\w+", head)]
        homes = {each: (SOURCE, ROOT)[each.startswith("tests/")] / each for each in named}
        wrong += [
            f"{page.name}: {each}"
            for each, home in homes.items()
            if not home.exists() and not home.with_suffix(".py").exists()
        ]
    assert wrong == [], "\n".join(wrong)


def test_every_module_in_backticks_exists() -> None:
    """`package/module`, `package/module.py` and `package.module.Class`, in pages and modules."""
    packages = "|".join(path.parent.name for path in SOURCE.glob("*/__init__.py"))
    path = re.compile(rf"`(?:penstock/)?((?:{packages})(?:/\w+)+)(?:\.py(?:::\w+)?)?`")
    name = re.compile(rf"`(?:penstock\.)?((?:{packages})(?:\.[a-z_]+)+)\.[A-Z]\w+`")
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *SOURCE.rglob("*.py")]
    wrong = [
        f"{file.relative_to(ROOT)}: {named}"
        for file in files
        for text in [file.read_text()]
        for named in (*path.findall(text), *(each.replace(".", "/") for each in name.findall(text)))
        if not (home := SOURCE / named).exists() and not home.with_suffix(".py").exists()
        if named not in OF_PROJECTS
    ]
    assert wrong == [], "\n".join(wrong)


def test_every_decision_is_short_and_listed_with_its_title() -> None:
    """`docs/decisions/README.md` is where a reader begins; a page has at most 40 lines."""
    pages = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert [each.name for each in pages if len(each.read_text().splitlines()) > 40] == []
    titles = [each.read_text().partition("\n")[0].removeprefix("# ") for each in pages]
    wanted = [
        f"- [{number}]({page.name}) {rest}"
        for page, title in zip(pages, titles, strict=True)
        for number, _, rest in [title.partition(" ")]
    ]
    listed = (ROOT / "docs/decisions/README.md").read_text().splitlines()
    assert [each for each in listed if each.startswith("- [")] == wanted


def test_every_page_can_be_reached_from_the_readme() -> None:
    """Links lead from README.md to every page."""
    first = ROOT / "README.md"
    reached, at_hand = {first}, [first]
    while at_hand:
        page = at_hand.pop()
        linked = re.findall(r"\]\((?!https?:)([^)#\s]+\.md)", page.read_text())
        new = {(page.parent / each).resolve() for each in linked} - reached
        reached |= new
        at_hand += new
    pages = {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}
    assert sorted(str(each.relative_to(ROOT)) for each in pages - reached) == []


def test_every_folder_that_a_visitor_sees_has_its_purpose_in_the_guide() -> None:
    """A folder of tests is named after its package, or the guide says what it is for."""
    named = set(re.findall(r"`([\w./]+)`", _rows(ROOT / "CONTRIBUTING.md")))
    assert [each for each in sorted(named) if not (ROOT / each).is_dir()] == []
    packages = {f"tests/{each.name}" for each in SOURCE.iterdir()}
    seen = {
        str(path.relative_to(ROOT))
        for path in (*ROOT.iterdir(), *(ROOT / "tests").iterdir())
        if path.is_dir() and path.name[0] not in "._" and path.name not in {"build", "dist"}
    }
    assert sorted(seen - packages - named) == []


def _rows(page: Path) -> str:
    """Return the first cell of each row of a table, and no other text of a page."""
    lines = page.read_text().splitlines()
    return "\n".join(line.split("|")[1] for line in lines if line.startswith("| `"))


def test_every_link_has_a_target() -> None:
    """The file exists, and has the heading that the link names."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    wrong = []
    for page in pages:
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
            path, _, heading = link.partition("#")
            home = page.parent / path if path else page
            if not home.exists() or (heading and heading not in _anchors(home)):
                wrong.append(f"{page.relative_to(ROOT)}: {link}")
    assert wrong == [], "\n".join(wrong)


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each).strip().lower().replace(" ", "-") for each in heads}


def test_every_module_and_test_that_a_guide_names_is_defined() -> None:
    """`package/file.name`, `package.file.Name` and `tests/file.py::name` are defined there."""
    docs = ROOT / "docs"
    guides = [*ROOT.glob("*.md"), *(docs / "packages").glob("*.md"), *(docs / "howto").glob("*.md")]
    guides += (docs / "decisions").glob("*.md")
    guides += [
        docs / f"{each}.md" for each in ("architecture", "durability", "first-hour", "words")
    ]
    wrong = [
        f"{page.relative_to(ROOT)}: {named}"
        for page in sorted(guides)
        if page.name != "CHANGELOG.md"
        for named in re.findall(r"`([\w./:]+)`", page.read_text())
        if not _is_defined(named)
    ]
    assert wrong == [], "\n".join(wrong)


def test_every_test_that_a_docstring_names_exists() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        # without a parser, which takes almost the second that a test may take
        text = " ".join(re.findall(r'"""(.*?)"""', path.read_text(), re.DOTALL))
        named = re.findall(r"\btests/[\w/]+(?:\.py(?:::\w+)?)?", text)
        wrong += [f"{path.relative_to(ROOT)}: {each}" for each in named if not _is_defined(each)]
        alone = set(re.findall(r"(?<![\w/])test_\w+\.py", text))
        wrong += [
            f"{path.relative_to(ROOT)}: {each}"
            for each in sorted(alone)
            if not any((ROOT / "tests").rglob(each))
        ]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize(
    ("named", "is_defined"),
    [
        ("engine/session_state", True),
        ("engine/session_state.StateCache", True),
        ("penstock/engine/session_state.py", True),
        ("testing.resources.MemoryVault", True),
        ("tests/test_pages.py::test_every_link_has_a_target", True),
        ("tests/journeys", True),
        ("a/path/of/something/else", True),
        ("engine/state_cache", False),
        ("engine/session_state.StateCash", False),
        ("penstock/engine/state_cache.py", False),
        ("testing.resources.MemoryVolt", False),
        ("testing.volt.MemoryVault", False),
        ("tests/test_pages.py::test_every_link_has_a_tarjet", False),
        ("tests/server/test_nothing.py", False),
    ],
)
def test_a_name_is_defined_only_where_it_says(named: str, is_defined: bool) -> None:
    assert _is_defined(named) is is_defined


def test_the_glossary_is_short() -> None:
    """A page of over 1,500 words would be a dialect."""
    assert len(re.findall(r"[A-Za-z][\w'.-]*", (ROOT / "docs/words.md").read_text())) <= 1500


def _is_defined(named: str) -> bool:
    """Whether a path or dotted name exists; True for what names no module, package or test."""
    known = "|".join(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
    if match := re.fullmatch(r"(tests/[\w/]+)(?:\.py(?:::(\w+))?)?", named):
        home, names = ROOT / match[1], [match[2]] if match[2] else []
    elif match := re.fullmatch(rf"(?:penstock/)?((?:{known})/(?!NAME)[\w/]+)((?:\.\w+)*)", named):
        home, names = SOURCE / match[1], match[2].split(".")[1:]
        if home.with_suffix(match[2]).exists():
            return True
    elif match := re.fullmatch(rf"({known})\.(\w+)\.([A-Z]\w*)", named):
        home, names = SOURCE / match[1] / match[2], [match[3]]
    else:
        return True
    module = home.with_suffix(".py")
    if not names:
        return home.exists() or module.exists()
    return module.exists() and all(
        re.search(rf"^ *(?:(?:async )?def |class )?{name}\b", module.read_text(), re.MULTILINE)
        for name in names
    )
