"""The documentation as a static site."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.recipes.count import NAMES
from scripts.website import PACKAGES, broken_links

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.programs


@pytest.mark.slow("builds every page and the reference")
def test_the_site_builds_without_a_broken_link_or_an_asset_of_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.website", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    for package in PACKAGES:
        name = package.__name__
        reference = (tmp_path / "site" / "reference" / f"{name}.html").read_text()
        names = {*package.__all__, *getattr(package, "HOMES", ())}
        assert {each for each in names if f'id="{name}.{each}"' not in reference} == set()
    reference = (tmp_path / "site" / "reference" / "penstock.html").read_text()
    assert "Instructions, a model, tools and a type of output under one name." in reference
    assert (tmp_path / "site" / "first-hour.html").exists()
    compare = (tmp_path / "site" / "compare.html").read_text()
    assert compare.count('<div class="grid">') == len(NAMES) + 1  # and the program that is killed
    assert compare.count("Pydantic AI 2.68</span>") >= 10


BROKEN = {
    '<a href="gone.html">x</a>': "page.html: no file for gone.html",
    '<a href="#gone">x</a>': "page.html: no heading for #gone",
    '<a href="other.html#gone">x</a>': "page.html: no heading for other.html#gone",
    '<script src="https://cdn.example/x.js"></script>': (
        "page.html: loads https://cdn.example/x.js from the network"
    ),
    '<link rel="stylesheet" href="//fonts.example/x.css">': (
        "page.html: loads //fonts.example/x.css from the network"
    ),
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_link_is_named_with_its_page(tmp_path: Path, text: str) -> None:
    (tmp_path / "page.html").write_text(text)
    (tmp_path / "other.html").write_text('<h1 id="top">Other</h1>')
    assert list(broken_links(tmp_path)) == [BROKEN[text]]


def test_links_to_pages_headings_and_other_sites_are_fine(tmp_path: Path) -> None:
    links = ('"other.html"', '"other.html#top"', '"https://example.com"', '"mailto:a@example.com"')
    (tmp_path / "page.html").write_text("".join(f"<a href={each}>x</a>" for each in links))
    (tmp_path / "other.html").write_text('<h1 id="top">Other</h1>')
    assert list(broken_links(tmp_path)) == []
