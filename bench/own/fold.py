"""Penstock, a long conversation: read and folded cold, and asked in over HTTP when it is warm."""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from bench.own import sse
from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.core.call import CallPath, ToolCall
from penstock.core.envelope import Envelope
from penstock.core.events.events import (
    CallSettled,
    Entry,
    MessageReceived,
    ReplyReceived,
    SessionOpened,
    TaskEnded,
    TaskStarted,
)
from penstock.core.ids import CallId, LogId, MessageId, TaskId
from penstock.core.profile import LOCAL
from penstock.core.task import TaskStatus
from penstock.engine.session_state import fold as fold_records
from penstock.program.opening import open as open_runtime
from penstock.server.application import create_application
from penstock.store.logs.log import Lease

DISTRIBUTION = "penstock"
LOG = LogId("conv_long")
ROUNDS = 4
PER_TASK = 4 + 2 * ROUNDS
"""Events: the message, started, rounds of a reply and its call, the answer, ended."""
READING_S = 0.01
"""Between an answer and the next message: no person is quicker."""
ANSWER = "The answer, in a sentence of some length, as it would be in a real conversation. " * 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A server over an open runtime, and what closes it."""

    runtime: Runtime
    app: FastAPI
    closing: AsyncExitStack


async def begin(directory: str, url: str | None = None) -> Context:
    closing = AsyncExitStack()
    agent = Agent("bench", model=sse.Fake(), tools=[sse.Add()])
    settings = {} if url is None else {"database_url": url}
    opened = open_runtime(directory, agents=[agent], settings=settings)
    runtime = await closing.enter_async_context(opened)
    return Context(runtime=runtime, app=create_application(runtime), closing=closing)


async def fill(context: Context, events: int) -> str:
    log = context.runtime.parts.storage.log
    opened = Entry(SessionOpened(profile_id=LOCAL, agent="bench", title="A long conversation"))
    lease: Lease | None = None
    for number in range(-(-(events - 1) // PER_TASK)):
        task_id = TaskId(f"task_{number}")
        received = MessageReceived(message_id=MessageId(f"msg_{number}"), content=f"go {number}")
        first = [] if lease else [opened]
        await log.send(LOG, [*first, Entry(received, task_id)])
        lease = lease or await log.acquire(LOG, "bench")
        assert lease
        await log.append(lease, task_entries(number, task_id))
    assert lease
    await log.release(lease, head=await log.head(LOG))
    return LOG


async def fold(context: Context, name: str) -> None:
    state = fold_records(LogId(name), await context.runtime.parts.storage.log.read(LogId(name)))
    assert state.next_task() is None


async def first_event(context: Context, name: str | None) -> float:
    asked = {"content": "go", "stream": True} | ({"conversationId": name} if name else {})
    body, came = json.dumps(asked).encode(), list[float]()
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        for part in parts:
            return part
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if not came and b"data:" in message.get("body", b""):
            came.append(time.perf_counter())

    started = time.perf_counter()
    await context.app(_scope(body), receive, send)
    await asyncio.sleep(READING_S)
    return came[0] - started


async def end(context: Context) -> None:
    await context.closing.aclose()


def task_entries(number: int, task_id: TaskId) -> list[Entry]:
    """Return what happens in one task: some rounds of one call each, and an answer."""
    entries = [Entry(TaskStarted(model="fake", offered=("add",)), task_id)]
    for turn in range(1, ROUNDS + 1):
        call = ToolCall(CallId(f"tc_{number}_{turn}"), "add", {"a": number, "b": turn})
        entries += [
            Entry(_reply(number, turn, "", (call,)), task_id),
            Entry(_settled(call), task_id, CallPath(f"{task_id}/{turn}/add#{number:016x}")),
        ]
    ended = TaskEnded(
        status=TaskStatus.SUCCEEDED, message_id=MessageId(f"ans_{number}"), content=ANSWER
    )
    answer = _reply(number, ROUNDS + 1, ANSWER, ())
    return [*entries, Entry(answer, task_id), Entry(ended, task_id)]


def _reply(number: int, turn: int, text: str, calls: tuple[ToolCall, ...]) -> ReplyReceived:
    message_id = MessageId(f"rep_{number}_{turn}")
    return ReplyReceived(iteration=turn, base=1, text=text, message_id=message_id, calls=calls)


def _settled(call: ToolCall) -> CallSettled:
    output = sum(call.arguments.values())
    return CallSettled(
        tool_id=call.name,
        envelope=Envelope.success(output),
        call_id=call.call_id,
        context=str(output),
        preview=str(output),
    )


def _scope(body: bytes) -> dict[str, Any]:
    headers = {
        "host": "localhost",
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/agents/bench/chat",
        "raw_path": b"/api/agents/bench/chat",
        "query_string": b"",
        "root_path": "",
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
