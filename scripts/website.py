"""Build the documentation as one static site: all pages, and a reference from the docstrings.

    python -m scripts.website [FOLDER]

The site needs no network, neither to build nor to read. The pages stay as they are, readable in the
repository: this script copies them, turns README.md into the first page, writes one page of
reference for each public package, and checks every link of the result.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import griffe

import penstock
from penstock import evals, testing

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs"
GUIDES = ("CONTRIBUTING", "SECURITY", "CHANGELOG", "AGENTS", "RELEASING")
"""Pages at the top of the repository, beside README."""
PACKAGES = {
    penstock: "Everything that a program imports from `penstock`.",
    evals: "Evaluations of agents.",
    testing: "Tests of programs without a network.",
}
"""Public packages, each with the sentence above its reference."""
SECTIONS = ("packages", "decisions")
"""Folders of pages, each a section of the navigation."""
SIDE_BY_SIDE = re.compile(
    r"(?:^\*\*[^*\n]+\*\*\n\n```py\n.*?^```\n\n?){2,}", re.MULTILINE | re.DOTALL
)
"""Programs below each other, each with a title in bold: a grid in the site."""
WIDE = """---
hide:
  - navigation
  - toc
---

<style>
  .grid .highlight code { font-size: 0.56rem; }
</style>

"""
"""What comes before a page with programs in columns."""
CONFIG = """
[project]
site_name = "penstock"
site_description = "Agents whose tool calls are durable."
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = [
{nav}
]

[project.theme]
font = false
features = ["content.code.copy", "navigation.indexes", "navigation.top", "search.highlight"]
[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/moon"
toggle.name = "Dark"
[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/sun"
toggle.name = "Light"

[project.markdown_extensions.toc]
permalink = true
[project.markdown_extensions.tables]
[project.markdown_extensions.md_in_html]
[project.markdown_extensions.pymdownx.highlight]
[project.markdown_extensions.pymdownx.superfences]
[project.plugins.search]
[project.plugins.mkdocstrings.handlers.python]
paths = ["{root}"]
[project.plugins.mkdocstrings.handlers.python.options]
docstring_style = "google"
show_root_heading = true
show_root_full_path = false
show_source = false
show_labels = false
show_overloads = false
merge_init_into_class = true
members_order = "source"
separate_signature = true
show_signature_annotations = true
signature_crossrefs = true
line_length = 80
filters = ["!^_"]
extensions = ["{root}/scripts/website.py:RunnableExamples"]
"""


def main() -> int:
    """Build the site, print where it is, and return 1 if a link of it is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build")
    folder = parser.parse_args().folder.resolve()
    pages = folder / "pages"
    if pages.exists():
        shutil.rmtree(pages)
    collect(pages)
    nav = "\n".join(navigation(pages))
    (folder / "zensical.toml").write_text(CONFIG.replace("{nav}", nav).replace("{root}", str(ROOT)))
    command = [sys.executable, "-m", "zensical", "build", "--clean"]
    subprocess.run(command, cwd=folder, check=True)
    problems = list(broken_links(folder / "site"))
    for problem in problems:
        print(problem)
    print(folder / "site" / "index.html")
    return bool(problems)


def collect(pages: Path) -> None:
    """Copy all pages, and write those of the reference."""
    shutil.copytree(PAGES, pages)
    compared = pages / "compare.md"
    compared.write_text(WIDE + SIDE_BY_SIDE.sub(_grid, compared.read_text()))
    for name in GUIDES:
        _write(pages / f"{name}.md", (ROOT / f"{name}.md").read_text())
    _write(pages / "index.md", (ROOT / "README.md").read_text())
    (pages / "reference").mkdir()
    for package, sentence in PACKAGES.items():
        name = package.__name__
        names = {*package.__all__, *getattr(package, "HOMES", ())}  # `open` is in no star import
        parts = [f"::: {name}.{each}\n" for each in sorted(names)]
        text = "\n".join([f"# {name}", "", sentence, "", *parts])
        (pages / "reference" / f"{name}.md").write_text(text)


def _grid(programs: re.Match[str]) -> str:
    blocks = re.sub(r"\*\*([^*\n]+)\*\*\n\n```py", r'```py title="\1"', programs[0])
    return f'<div class="grid" markdown>\n\n{blocks.strip()}\n\n</div>\n\n'


def _write(page: Path, text: str) -> None:
    """Write a page of the top of the repository, whose links begin with `docs/`.

    Links to files that are no pages (examples, the licence) become plain text: the site has only
    the pages.
    """
    text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"\]\(README\.md", "](index.md", text)

    def keep(link: re.Match[str]) -> str:
        target = link[2].partition("#")[0]
        is_page = "://" in target or not target or (page.parent / target).is_file()
        return link[0] if is_page or target.removesuffix(".md") in {*GUIDES, "index"} else link[1]

    page.write_text(re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", keep, text))


def navigation(pages: Path) -> Iterator[str]:
    """Yield the rows of the navigation, in TOML: the table of README.md, then all other pages."""
    yield '  { "penstock" = "index.md" },'
    table = (ROOT / "README.md").read_text().partition("| to | read |")[2]
    shown: list[Path] = []
    for title, cell in re.findall(r"^\| ([a-z ]+) \| (.+) \|$", table, re.MULTILINE):
        named = [pages / each for each in re.findall(r"\]\((?:docs/)?([\w/-]+\.md)", cell)]
        files = [each for each in dict.fromkeys(named) if each.exists() and each not in shown]
        yield from _rows(title.capitalize(), pages, files)
        shown += files
    for name in ("reference", *SECTIONS):
        yield from _rows(name.capitalize(), pages, sorted((pages / name).glob("*.md")))
    rest = {*pages.glob("*.md"), *pages.glob("howto/*.md"), *pages.glob("scripts/*.md")} - {*shown}
    yield from _rows("More", pages, sorted(rest))


def _rows(title: str, pages: Path, files: list[Path]) -> Iterator[str]:
    yield f'  {{ "{title}" = ['
    for file in files:
        if file.name != "index.md":
            yield f'    {{ "{_title(file)}" = "{file.relative_to(pages).as_posix()}" }},'
    yield "  ] },"


def _title(file: Path) -> str:
    """Return the first heading of a page."""
    titles: list[str] = re.findall(r"^# (.+)$", file.read_text(), re.MULTILINE)
    return titles[0].replace("`", "").replace('"', "'")


def broken_links(site: Path) -> Iterator[str]:
    """Yield a line for each link to a missing page or heading, and for each asset of elsewhere."""
    read = {page: _Links(page) for page in sorted(site.rglob("*.html"))}
    for page, links in read.items():
        for kind, target in links.found:
            parts = urlsplit(target)
            if parts.scheme in {"http", "https"} or target.startswith("//"):
                if kind != "a":
                    yield f"{page.relative_to(site)}: loads {target} from the network"
                continue
            if parts.scheme or page.name == "404.html":
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            path = path / "index.html" if path.is_dir() else path
            if not path.exists():
                yield f"{page.relative_to(site)}: no file for {target}"
            elif parts.fragment and path in read and parts.fragment not in read[path].ids:
                yield f"{page.relative_to(site)}: no heading for {target}"


class RunnableExamples(griffe.Extension):
    """Shows `Example:` in docstrings as code; griffe knows the plural only."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section of one object."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = re.sub(
                r"^(\s*)Example:$", r"\1Examples:", text, flags=re.MULTILINE
            )


class _Links(HTMLParser):
    """The links, assets and ids of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = {"__skip"}
        self.found: list[tuple[str, str]] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what a tag refers to."""
        values = dict(attrs)
        if name := values.get("id"):
            self.ids.add(name)
        is_asset = tag in {"script", "img", "source", "iframe"} or "stylesheet" in (
            values.get("rel") or ""
        )
        for target in (values.get("href"), values.get("src")):
            if target and (tag == "a" or is_asset):
                self.found.append(("a" if tag == "a" else "asset", target))


if __name__ == "__main__":
    sys.exit(main())
