"""Rows that follow the files of a project."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.schedules.definition import NewSchedule, Schedule, ScheduleStatus
from penstock.chat.schedules.file_schedules import FileSchedules
from penstock.core.errors import ReadOnly
from penstock.core.task import TaskStatus
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from tests.kit.manifests import load
from tests.kit.project import ProjectFolder
from tests.kit.server import in_memory

NEWS = {
    "schedule_id": "news",
    "user_message": "What is new?",
    "timezone": "UTC",
    "cron_expression": "0 8 * * *",
}


def text(**more: Any) -> str:
    return "".join(f"{key}: {value}\n" for key, value in (NEWS | more).items())


class Folder:
    """Files, and the rows that follow them."""

    def __init__(self, runtime: Runtime, clock: FakeClock, root: Path) -> None:
        self.runtime, self.clock, self._root = runtime, clock, root
        self._number = 0

    async def follow(self, **files: str) -> dict[str, Schedule]:
        """Write these files and no others; return the schedules after that, by id."""
        self._number += 1
        root = self._root / str(self._number)
        root.mkdir()
        bundle = load(root, {f"{name}.schedule.yaml": each for name, each in files.items()})
        parts = self.runtime.parts.storage.database_parts
        assert parts is not None
        table = FileSchedules(parts.schedules, self.clock, ["shop.read"])
        await table.follow(bundle.schedules, bundle.broken_schedules)
        found, _ = await self.runtime.schedules.list()
        return {each.schedule_id: each for each in found}


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Folder]:
    clock = FakeClock()
    async with in_memory(clock=clock) as runtime:
        yield Folder(runtime, clock, tmp_path)


async def test_a_file_becomes_a_row_that_is_read_only(folder: Folder) -> None:
    news = (await folder.follow(a=text(context="{region: EU}", concurrency_policy="forbid")))[
        "news"
    ]
    assert (news.name, news.source, news.cron) == ("news", "file", "0 8 * * *")
    assert (news.callback_type, news.callback_id) == ("message", "assistant")
    assert news.input == {"content": "What is new?", "context": {"region": "EU"}}
    assert (news.concurrency, news.status) == ("forbid", ScheduleStatus.ACTIVE)
    assert (news.profile_id, news.permissions) == ("project", ("shop.read",))
    with pytest.raises(ReadOnly):
        await folder.runtime.schedules.delete("news")


async def test_a_named_profile_is_an_ordinary_one(folder: Folder) -> None:
    named = text(profile_channel="telegram", profile_external_user_id="'42'")
    news = (await folder.follow(a=named))["news"]
    assert (news.profile_id, news.permissions) == ("telegram:42", ("read", "chat", "approve"))


async def test_only_a_change_of_the_time_moves_the_next_due_time(folder: Folder) -> None:
    first = (await folder.follow(a=text()))["news"]
    folder.clock.advance(3 * 24 * 3600)
    assert (await folder.follow(a=text()))["news"] == first
    said = (await folder.follow(a=text(user_message="And now?")))["news"]
    assert (said.input["content"], said.next_run) == ("And now?", first.next_run)
    moved = (await folder.follow(a=text(cron_expression="0 9 * * *")))["news"]
    assert moved.next_run is not None
    assert moved.next_run > folder.clock.now()


async def test_a_file_that_is_gone_deletes_its_row_and_a_broken_one_changes_nothing(
    folder: Folder,
) -> None:
    mine = await folder.runtime.schedules.create(
        NewSchedule(name="Mine", cron="@daily", input={"content": "Hi"})
    )
    both = await folder.follow(a=text(), b=text(schedule_id="mail"))
    assert both.keys() == {"news", "mail", mine.schedule_id}
    broken = await folder.follow(a=text(timezone="Mars"), b="schedule_id: [")
    assert broken == both
    assert (await folder.follow(a=text())).keys() == {"news", mine.schedule_id}
    assert (await folder.follow()).keys() == {mine.schedule_id}


async def test_a_row_that_was_paused_stays_paused_until_its_file_says_otherwise(
    folder: Folder,
) -> None:
    await folder.follow(a=text())
    await folder.runtime.schedules.pause("news")
    again = (await folder.follow(a=text(user_message="And now?")))["news"]
    assert again.status is ScheduleStatus.PAUSED
    assert (await folder.follow(a=text(enabled="false")))["news"].status is ScheduleStatus.PAUSED
    assert (await folder.follow(a=text(enabled="true")))["news"].status is ScheduleStatus.ACTIVE


async def test_an_id_that_the_api_used_is_not_taken_over(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    new = NewSchedule(name="Mine", cron="@daily", input={"content": "Hi"})
    mine = await folder.runtime.schedules.create(new, schedule_id="news")
    assert (await folder.follow(a=text()))["news"] == mine
    assert "is not used: the API created one with this id" in caplog.text


async def test_a_project_runs_its_schedules_and_follows_its_files(
    project: ProjectFolder,
) -> None:
    """A label that the agent lacks fails the run; a reload takes the change over."""
    project.write("schedules/news.schedule.yaml", text(required_labels="[press]"))
    async with project.opened() as runtime:
        task_id = await runtime.schedules.run("news")
        reply = await runtime.requests.wait(task_id)
        assert reply is not None
        assert reply.error is not None
        assert (reply.status, reply.error.code) == (TaskStatus.FAILED, "NOT_PERMITTED")
    project.write("schedules/news.schedule.yaml", text(user_message="Hello"))
    async with project.opened() as runtime:
        task_id = await runtime.schedules.run("news")
        reply = await runtime.requests.wait(task_id)
        assert reply is not None
        assert reply.status is TaskStatus.SUCCEEDED
        (task, *_), _ = await runtime.parts.storage.projections.tasks(page=Page())
        assert (task.profile_id, task.schedule_id) == ("project", "news")
