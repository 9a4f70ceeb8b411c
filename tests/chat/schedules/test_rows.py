"""The table of schedules."""

from collections.abc import AsyncIterator

import pytest

from penstock.chat.schedules.definition import NewSchedule, Schedule
from penstock.chat.schedules.rows import ScheduleRows, SchedulesOf
from penstock.core.errors import NotFound
from penstock.store.projections import Page
from penstock.testing.clock import START, FakeClock
from tests.kit.schedules import MINUTE
from tests.kit.server import in_memory

CLOCK = FakeClock()


@pytest.fixture
async def rows(database_url: str) -> AsyncIterator[tuple[ScheduleRows, list[Schedule]]]:
    """Three schedules, due after one, two and three minutes; the last one is paused."""
    async with in_memory(url=database_url, clock=CLOCK) as runtime:
        parts = runtime.parts.storage.database_parts
        assert parts is not None
        made = [
            await runtime.schedules.create(
                NewSchedule(
                    name=name,
                    delay_seconds=60 * number,
                    input={"content": "Hi"},
                    is_paused=number == 3,
                )
            )
            for number, name in enumerate(("news", "Mail", "100%"), 1)
        ]
        yield parts.schedules, made


Rows = tuple[ScheduleRows, list[Schedule]]


async def test_due_schedules_are_found_with_the_soonest_due_time(rows: Rows) -> None:
    table, made = rows
    for minutes, limit, names in [(0, 9, []), (1, 9, ["news"]), (9, 9, ["news", "Mail"])]:
        found = await table.due(START + minutes * MINUTE, limit)  # type: ignore[arg-type]
        assert [each.name for each in found.schedules] == names
        assert (found.next_run, found.early) == (made[0].next_run, [])
    assert len((await table.due(START + 9 * MINUTE, 1)).schedules) == 1  # type: ignore[arg-type]
    early = await table.due(START - 2 * MINUTE, 9)  # type: ignore[arg-type]
    assert {each.name for each in early.early} == {"news", "Mail"}


@pytest.mark.parametrize(
    ("sort", "is_descending", "names"),
    [
        ("name", None, ["100%", "Mail", "news"]),
        ("name", True, ["news", "Mail", "100%"]),
        ("next_run", None, ["news", "Mail", "100%"]),
    ],
)
async def test_lists_are_sorted_alike_on_both_databases(
    rows: Rows, sort: str, is_descending: bool | None, names: list[str]
) -> None:
    table, _ = rows
    found, total = await table.list(page=Page(is_descending=is_descending), sort=sort)
    assert ([each.name for each in found], total) == (names, 3)


async def test_a_search_takes_every_character_as_it_is(rows: Rows) -> None:
    table, _ = rows
    for text, count in [("", 3), ("m", 1), ("%", 1), ("_", 0), ("\x00", 3)]:
        assert (await table.list(SchedulesOf(search=text)))[1] == count, text


async def test_an_unknown_schedule_is_not_found_and_near_ones_are_named(rows: Rows) -> None:
    table, made = rows
    for wrong, part in [
        ("news", f"Did you mean {made[0].schedule_id!r}?"),
        ("sched_?", f"{made[1].schedule_id} (Mail)"),
    ]:
        with pytest.raises(NotFound) as caught:
            await table.get(wrong)
        assert part in str(caught.value)
    with pytest.raises(NotFound, match=r"of agent 'poet'\. There is none"):
        await table.get(made[0].schedule_id, "poet")
    assert await table.find("news") is None
    assert not await table.remove("news")


async def test_a_second_row_with_an_id_changes_nothing(rows: Rows) -> None:
    table, made = rows
    row = {"schedule_id": made[0].schedule_id, "name": "Other"}
    assert await table.add(row) == made[0]
