"""A search in a process of its own: a pattern that never ends is cut."""

import asyncio
from pathlib import Path

import pytest

from penstock.resources.project.search import SearchHits, SearchQuery, search
from penstock.resources.project.walk import FoundFile

pytestmark = pytest.mark.serial


def files(*names: str) -> list[FoundFile]:
    return [FoundFile(path=name, real=name) for name in names]


async def test_what_is_found_is_given_in_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text("x\ny\nx\n")
    found = await search(tmp_path, files("a", "b"), SearchQuery(pattern="x", limit=3))
    assert found == SearchHits(lines=("a:1: x", "a:3: x", "b:1: x"), is_cut=True)


async def test_nothing_is_found_in_no_files(tmp_path: Path) -> None:
    assert await search(tmp_path, [], SearchQuery(pattern="x")) == SearchHits(lines=())


async def test_a_bad_pattern_is_said(tmp_path: Path) -> None:
    found = await search(tmp_path, [], SearchQuery(pattern="("))
    assert "unterminated" in found.bad_pattern


@pytest.mark.slow("starts 48 processes")
async def test_no_search_takes_the_exit_code_of_its_process_away_from_the_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop wrote "Unknown child process pid N" after every fourth search."""
    for _ in range(6):
        some = (search(tmp_path, [], SearchQuery(pattern="x")) for _ in range(8))
        assert {found.is_late for found in await asyncio.gather(*some)} == {False}
    assert [each.message for each in caplog.records if each.name == "asyncio"] == []


async def test_a_pattern_that_never_ends_is_cut_while_the_loop_goes_on(tmp_path: Path) -> None:
    """Shows "10 s"; what was found before is kept."""
    (tmp_path / "a").write_text("aab\n")
    (tmp_path / "b").write_text("a" * 60 + "!\n")
    beats, ticking = 0, asyncio.Event()

    async def beat() -> None:
        nonlocal beats
        while not ticking.is_set():
            beats += 1
            await asyncio.wait([asyncio.create_task(ticking.wait())], timeout=0.01)

    heart = asyncio.create_task(beat())
    found = await search(tmp_path, files("a", "b"), SearchQuery(pattern="^(a|a)*b"), seconds=0.5)
    ticking.set()
    await heart
    assert found == SearchHits(lines=("a:1: aab",), is_late=True)
    assert beats > 5
