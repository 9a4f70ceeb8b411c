"""Recorded tasks as files."""

from typing import Any

import pytest

from penstock import Agent, tool
from penstock.app.trial.replay import recorded, replay_saved
from penstock.app.trial.saved_task import SavedTask, fingerprint
from penstock.chat.recorded.replay_report import ReplayChanges, ReplayOptions
from penstock.core.errors import ConfigError
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime

LONG = "word " * 10_000


@tool(effect="read")
def read_page(page: int) -> str:
    """Return a long page."""
    return LONG


async def saved() -> bytes:
    """A file of a task with a long output, in which an agent calls another one."""
    inner = Agent(
        "inner", model=ScriptedModel([call("read_page", page=2), say("Two.")]), tools=[read_page]
    )
    model = ScriptedModel([call("read_page", page=1) + call("inner", task="2"), say("Read.")])
    outer = Agent("outer", model=model, tools=[read_page, inner])
    async with memory_runtime(agents=[outer]) as runtime:
        reply = await runtime.chat("Read", agent=outer)
        task = await recorded(runtime, reply.task_id, runtime.local)
        return await task.to_file(runtime.parts.storage.blobs, b"another secret")


@pytest.mark.parametrize(
    ("tools", "kind"),
    [({}, None), ({"read_page": {"output_schema": {"type": "object"}}}, "output_schema")],
)
async def test_a_saved_task_is_replayed_where_another_secret_makes_other_paths(
    tools: dict[str, Any], kind: str | None
) -> None:
    task = SavedTask.from_file(await saved(), "tasks/read.json")
    inner = Agent("inner", model=ScriptedModel([]), tools=[read_page])
    outer = Agent("outer", model=ScriptedModel([]), tools=[read_page, inner])
    async with memory_runtime(agents=[outer], tools=[read_page]) as runtime:
        key = runtime.parts.storage.key
        assert task.is_foreign(key)
        options = ReplayOptions(changes=ReplayChanges(tools=tools))
        report = await replay_saved(runtime, task, options)
    found = report.difference
    assert (None if found is None else found.kind) == kind


def test_the_fingerprint_of_a_secret_does_not_contain_it() -> None:
    assert fingerprint(b"one") != fingerprint(b"two")
    assert b"one".hex() not in fingerprint(b"one")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as a saved task"),
        (b"[]", "cannot be read as a saved task"),
        (b'{"savedTask": 1}', "cannot be read as a saved task"),
        (b'{"savedTask": 99}', "was saved by another version"),
        (
            b'{"savedTask": 1, "taskId": "t", "logId": "l", "events": [{"kind": "x"}]}',
            "cannot be read as a saved task",
        ),
    ],
)
def test_another_file_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=f"tasks/x.json {message}"):
        SavedTask.from_file(content, "tasks/x.json")
