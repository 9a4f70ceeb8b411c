"""Files through built-in tools: what they give, what they refuse, and that a crash splits nothing.

N40: "reading or writing VFS files through built-in tools".
"""

import base64
from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.builtins.files import TOOLS
from penstock.core.events.events import CallSettled
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live, see_through
from tests.kit.workbench import Desk, open_desk

MAX_CONTENT = "x" * 65_536


async def furnished() -> Desk:
    desk = await open_desk(*TOOLS)
    given: dict[str, bytes | str] = {
        "task://a.txt": "é",
        "task://large.txt": "x" * 16_385,
        "task://bytes": b"\xff\x00",
        "session://d/b.txt": "b",
        "session://d/e/c.txt": "c",
    }
    for uri, content in given.items():
        await desk.put(uri, content)
    return desk


READ: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "read_text_file",
        {"path": "task://a.txt"},
        {"path": "task://a.txt", "content": "é", "size_bytes": 2, "max_bytes": 16_384},
    ),
    (
        "read_text_file",
        {"path": "session://d/e/c.txt", "max_bytes": 1},
        {"path": "session://d/e/c.txt", "content": "c", "size_bytes": 1, "max_bytes": 1},
    ),
    (
        "read_file_base64",
        {"path": "task://bytes"},
        {"path": "task://bytes", "base64_data": "/wA=", "size_bytes": 2, "max_bytes": 262_144},
    ),
    (
        "read_dir",
        {"path": "session://d"},
        {
            "path": "session://d",
            "entry_count": 2,
            "entries": [
                {"path": "session://d/b.txt", "name": "b.txt", "entry_type": "file"},
                {"path": "session://d/e", "name": "e", "entry_type": "directory"},
            ],
        },
    ),
]


@pytest.mark.parametrize(("tool_id", "input", "output"), READ)
async def test_a_file_is_read(tool_id: str, input: dict[str, Any], output: Any) -> None:
    desk = await furnished()
    assert await desk.made(tool_id, **input) == output


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("read_text_file", {"path": "task://none.txt"}, "not_found"),
    ("read_text_file", {"path": "session://a.txt"}, "not_found"),
    ("read_text_file", {"path": "session://d"}, "is_directory"),
    ("read_text_file", {"path": "task://"}, "is_directory"),
    ("read_text_file", {"path": "task://a.txt/b"}, "not_a_directory"),
    ("read_text_file", {"path": "task://large.txt"}, "too_large"),
    ("read_text_file", {"path": "task://a.txt", "max_bytes": 1}, "too_large"),
    ("read_text_file", {"path": "task://bytes"}, "not_text"),
    ("read_text_file", {"path": "task://a.txt", "max_bytes": 16_385}, "invalid"),
    ("read_text_file", {"path": "task://a.txt", "max_bytes": 0}, "invalid"),
    ("read_text_file", {"path": "task://a.txt", "encoding": "utf-8"}, "invalid"),
    ("read_text_file", {"path": 1}, "invalid"),
    ("read_text_file", {}, "invalid"),
    ("read_text_file", {"path": "/etc/passwd"}, "invalid"),
    ("read_text_file", {"path": "file:///etc/passwd"}, "invalid"),
    ("read_text_file", {"path": "task:///etc/passwd"}, "invalid"),
    ("read_text_file", {"path": "task://a/../b"}, "invalid"),
    ("read_text_file", {"path": "task://a\\b"}, "invalid"),
    ("read_text_file", {"path": "task://" + "a/" * 40 + "b"}, "invalid"),
    ("write_text_file", {"path": "task://a.txt/b", "content": ""}, "not_a_directory"),
    ("write_text_file", {"path": "session://d", "content": ""}, "is_directory"),
    ("write_text_file", {"path": "task://", "content": ""}, "is_directory"),
    ("write_text_file", {"path": "task://x", "content": f"{MAX_CONTENT}x"}, "too_large"),
    ("write_text_file", {"path": "task://x", "content": "é" * 32_769}, "too_large"),
    ("write_text_file", {"path": "task://x"}, "invalid"),
    ("write_text_file", {"path": "task://x", "content": "\ud800"}, "invalid"),
    ("write_text_file", {"path": "session://../x", "content": ""}, "invalid"),
    ("read_file_base64", {"path": "session://d"}, "is_directory"),
    ("read_file_base64", {"path": "task://none"}, "not_found"),
    ("read_file_base64", {"path": "task://large.txt", "max_bytes": 16_384}, "too_large"),
    ("read_file_base64", {"path": "task://a.txt", "max_bytes": 262_145}, "invalid"),
    ("read_dir", {"path": "task://none"}, "not_found"),
    ("read_dir", {"path": "task://a.txt"}, "not_a_directory"),
    ("read_dir", {"path": ""}, "invalid"),
]


@pytest.mark.parametrize(("tool_id", "input", "reason"), REFUSED)
async def test_an_invalid_path_or_size_is_refused(
    tool_id: str, input: dict[str, Any], reason: str
) -> None:
    desk = await furnished()
    assert await desk.refusal(tool_id, **input) == reason
    assert await desk.get("task://a.txt") == "é".encode()


async def test_a_file_is_made_with_its_directories_and_overwritten() -> None:
    desk = await open_desk(*TOOLS)
    for content in ("first", MAX_CONTENT, ""):
        output = await desk.made("write_text_file", path="task://a/b/c.txt", content=content)
        assert output == {"path": "task://a/b/c.txt", "bytes_written": len(content)}
        assert await desk.get("task://a/b/c.txt") == content.encode()


async def test_names_are_nfc() -> None:
    desk = await open_desk(*TOOLS)
    await desk.made("write_text_file", path="task://e\u0301", content="x")
    assert (await desk.made("read_text_file", path="task://\u00e9"))["content"] == "x"


async def test_a_directory_of_more_than_a_thousand_entries_is_truncated() -> None:
    desk = await open_desk(*TOOLS)
    for number in range(1001):
        await desk.put(f"task://{number:04}", "")
    output = await desk.made("read_dir", path="task://")
    assert (output["entry_count"], output["truncated"]) == (1000, True)
    assert output["entries"][-1]["name"] == "0999"


async def test_a_full_task_refuses_a_write_and_keeps_its_files() -> None:
    desk = await open_desk(*TOOLS, limits=Limits(task_bytes=10))
    await desk.made("write_text_file", path="task://a", content="12345678")
    assert await desk.refusal("write_text_file", path="task://b", content="123") == "quota"
    assert await desk.refusal("read_text_file", path="task://b") == "not_found"
    assert (await desk.made("write_text_file", path="task://a", content="123"))["bytes_written"]


async def test_the_log_and_the_model_have_the_same_refusal() -> None:
    desk = await open_desk(*TOOLS, limits=Limits(task_bytes=1))
    envelope = await desk.bench.call("write_text_file", {"path": "task://a", "content": "12"})
    settled = (await desk.bench.settled())[-1]
    assert settled.envelope == envelope
    assert settled.context is not None
    assert "TOOL_FAILED" in settled.context


async def test_base64_reads_back() -> None:
    desk = await open_desk(*TOOLS)
    data = bytes(range(256)) * 1024
    await desk.put("task://x", data)
    output = await desk.made("read_file_base64", path="task://x")
    assert base64.b64decode(output["base64_data"]) == data


# ---- a crash -------------------------------------------------------------------------------------

WRITES = 8
"""How often the log of such a conversation is written to."""
CLERK = Agent("assistant", settings=ChatSettings(enabled_tools=("write_text_file",)))


def writer() -> ScriptedModel:
    write = call("write_text_file", path="session://a", content="x")
    return ScriptedModel({"Go": [write, say("Done.")]})


async def ids(log: DyingLog) -> list[LogId]:
    found, _ = await log.tasks(page=Page())
    return [each.log_id for each in found]


async def outcomes(log: DyingLog, log_id: LogId) -> list[CallSettled]:
    return [each.event for each in await log.read(log_id) if isinstance(each.event, CallSettled)]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_crash_leaves_the_file_and_its_record_or_neither(writes: int, before: bool) -> None:
    """§17: "in the same transaction as its `call_settled`, so it happens exactly once"."""
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    model = writer()
    reply, settled = None, list[CallSettled]()
    while reply is None:
        async with memory_runtime(model=model, agents=[CLERK], tools=TOOLS, place=place) as runtime:
            reply = await live(
                runtime, log, see_through(runtime, "Go", lambda _: {"decision": "approve"})
            )
        settled = [each for log_id in await ids(log) for each in await outcomes(log, log_id)]
        kept = [log.changes.contents(Scope(ScopeKind.SESSION, each)) for each in await ids(log)]
        assert sum(len(each.files) for each in kept) == len(settled)
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)
    assert reply.content == "Done."
    assert [each.envelope.ok for each in settled] == [True]
