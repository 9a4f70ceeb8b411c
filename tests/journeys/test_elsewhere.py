"""A reply in one process, streamed by another: two runtimes on one file."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.app.runtime import Runtime
from penstock.chat.python.public_events import Ended, OutputDelta
from penstock.chat.requests import NewMessage, SentMessage
from penstock.core.limits import Limits
from penstock.models.scripted import (
    Hold,
    ScriptedModel,
    ScriptedReply,
    call,
    fail,
    raw_call,
    say,
    think,
    wait,
)
from penstock.server.application import create_application
from tests.kit.listener import listening
from tests.kit.server import CHAT, blocks, frames, in_memory
from tests.kit.tools import Act, Gate

LIMITS = Limits(
    lease_seconds=0.6,
    poll_seconds=0.02,
    sweep_seconds=0.2,
    shutdown_seconds=0.05,
)
Frame = tuple[str, dict[str, Any]]
pytestmark = [
    pytest.mark.programs,
    pytest.mark.slow("two runtimes and a server, on a file that is really written"),
]


@dataclass
class Far:
    """A conversation that runs in one runtime, and a client of another."""

    here: Runtime
    there: Runtime
    client: httpx2.AsyncClient
    sent: SentMessage | None = None

    async def send(self, **fields: Any) -> None:
        """Say something where the model is."""
        self.sent = await self.here.requests.send(NewMessage(content="Go", **fields))

    @asynccontextmanager
    async def stream(self, last: str | None = None) -> AsyncIterator[AsyncIterator[Frame]]:
        """Follow the conversation from the other process, from where one left it."""
        assert self.sent
        query = {"conversationId": self.sent.session_id}
        headers = {"last-event-id": last} if last else {}
        async with self.client.stream(
            "GET", f"{CHAT}/stream", params=query, headers=headers
        ) as response:
            yield (frames(block)[0] async for block in blocks(response))


@asynccontextmanager
async def far(url: str, script: list[ScriptedReply], **server: Any) -> AsyncIterator[Far]:
    """Open a runtime that works, and another that serves."""
    model, silent = ScriptedModel(script), ScriptedModel([])
    async with (
        in_memory(model=model, url=url, limits=LIMITS, **server) as here,
        in_memory(model=silent, url=url, limits=LIMITS) as runtime,
        listening(create_application(runtime)) as address,
        httpx2.AsyncClient(base_url=address) as client,
    ):
        yield Far(here, runtime, client)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/penstock.db"


async def until(frames: AsyncIterator[Frame], pieces: str) -> list[Frame]:
    """Read frames until they contain this text, reasoning and reply together."""
    seen, text = [], ""
    while not text.endswith(pieces):
        seen.append(await anext(frames))
        text += seen[-1][1].get("delta", "")
    return seen


def joined(seen: list[Frame]) -> str:
    return "".join(data.get("delta", "") for _, data in seen)


def places(seen: list[Frame]) -> list[tuple[int, int]]:
    """Return the ids of frames as what orders them."""
    parts = [event_id.partition(".") for event_id, _ in seen]
    return [(int(seq), int(units or -1)) for seq, _, units in parts]


def rows(url: str) -> int:
    """Return how many pieces of replies are in the file."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return int(connection.execute("SELECT count(*) FROM deltas").fetchone()[0])


async def test_a_reply_is_streamed_by_another_process_while_it_arrives(url: str) -> None:
    """A reconnect streams the reply in flight, also when another process writes it."""
    holds = Hold(), Hold()
    reply = think("Hm. ") + say("Hel") + wait(holds[0]) + say("lo, ") + wait(holds[1]) + say("Ann.")
    async with far(url, [reply]) as server:
        await server.send()
        await holds[0].reached()
        async with server.stream() as coming:
            seen = await until(coming, "Hm. Hel")
            holds[0].release()
            seen += await until(coming, "lo, ")
            holds[1].release()
            seen += [frame async for frame in coming]
    kinds = [data["type"] for _, data in seen]
    assert kinds[:4] == ["message_start", "thinking", "thinking", "content_delta"]
    assert kinds.count("message_start") == kinds.count("message_complete") == 1
    assert [data for _, data in seen if data["type"] == "thinking" and "delta" not in data] == [
        {"type": "thinking", "iteration": 1, "maxIterations": 8}
    ]
    assert joined(seen) == "Hm. Hello, Ann."
    assert places(seen) == sorted(set(places(seen)))
    base = places(seen)[1][0]
    assert places(seen)[1:4] == [(base, 0), (base, 4), (base, 7)]


@pytest.mark.parametrize("units", [0, 2, 3, 7])
async def test_a_reader_resumes_in_the_middle_without_gap_or_repetition(
    url: str, units: int
) -> None:
    hold = Hold()
    async with far(url, [think("Hm.") + say("Hello") + wait(hold) + say(" again.")]) as server:
        await server.send()
        await hold.reached()
        async with server.stream() as coming:
            base = places(await until(coming, "Hello"))[-1][0]
        async with server.stream(f"{base}.{units}") as coming:
            seen = await until(coming, "Hello"[units - 8 :])
            hold.release()
            seen += [frame async for frame in coming]
    assert joined(seen) == "Hm.Hello again."[units:]
    assert seen[-1][1]["content"] == "Hello again."


async def test_a_reader_resumes_after_the_reply_is_complete(url: str) -> None:
    hold = Hold()
    async with far(url, [say("Hel") + wait(hold) + say("lo.")]) as server:
        await server.send()
        await hold.reached()
        async with server.stream() as coming:
            seen = await until(coming, "Hel")
        hold.release()
        assert server.sent
        await server.here.requests.wait(server.sent.task_id)
        async with server.stream(seen[-1][0]) as coming:
            rest = [frame async for frame in coming]
    assert [data.get("delta") for _, data in rest] == ["lo.", None]


async def test_a_typed_output_is_streamed_by_another_process_while_it_arrives(url: str) -> None:
    """Its frames and its events of a run; both end with the accepted output."""
    holds = Hold(), Hold()
    steps = (*raw_call("final_answer", '{"title"', ': "Fi').steps, holds[0])
    steps += (*raw_call("", "re", '"').steps[1:], holds[1], *raw_call("", "}").steps[1:])
    async with far(url, [ScriptedReply(steps, calls=1)]) as server:
        await server.send(output_schema={"type": "object", "properties": {"title": {}}})
        await holds[0].reached()
        assert server.sent
        events = aiter(server.there.attach(server.sent.task_id))
        async with server.stream() as coming:
            assert await anext(events) == OutputDelta({"title": "Fi"})
            holds[0].release()
            while (shown := await anext(events)) != OutputDelta({"title": "Fire"}):
                assert isinstance(shown, OutputDelta)
            seen = [(await anext(coming))[1]]
            while seen[-1].get("partial") != {"title": "Fire"}:  # a slow reader may skip the last
                seen.append((await anext(coming))[1])
            holds[1].release()
            rest = [event async for event in events]
            seen += [data async for _, data in coming]
    assert rest[-2:] == [OutputDelta({"title": "Fire"}), Ended("succeeded")]
    partials = [data["partial"] for data in seen if data["type"] == "output_delta"]
    assert partials[-1] == {"title": "Fire"}
    assert seen[-1]["output"] == {"title": "Fire"}


async def test_a_retracted_reply_is_retracted_in_other_processes(url: str) -> None:
    hold = Hold()
    script = [say("Wro") + wait(hold) + fail(503), say("Right.")]
    async with far(url, script) as server:
        await server.send()
        await hold.reached()
        async with server.stream() as coming:
            seen = await until(coming, "Wro")
            hold.release()
            seen += [frame async for frame in coming]
    kinds = [data["type"] for _, data in seen]
    reset = kinds.index("content_reset")
    assert joined(seen[:reset]) == "Wro"
    assert joined(seen[reset:]) == seen[-1][1]["content"] == "Right."
    assert places(seen) == sorted(set(places(seen)))


async def test_several_replies_are_followed_across_a_slow_call(url: str) -> None:
    gate, hold = Gate(), Hold()
    script = [say("Let me look.") + call("look"), say("Well, ") + wait(hold) + say("no.")]
    async with far(url, script, tools=[Act("look", gate)]) as server:
        await server.send()
        await gate.reached()
        async with server.stream() as coming:
            seen = await until(coming, "Let me look.")
            seen.append(await anext(coming))
            gate.open()
            await hold.reached()
            seen += await until(coming, "Well, ")
            hold.release()
            seen += [frame async for frame in coming]
    assert [data["iteration"] for _, data in seen if "maxIterations" in data] == [1, 2]
    assert joined(seen) == "Let me look.Well, no."
    assert places(seen) == sorted(set(places(seen)))


async def test_live_text_is_stored_only_while_another_process_reads_it(url: str) -> None:
    hold, alone = Hold(), Hold()
    script = [say("Alone. ") + wait(alone) + call("look"), say("Hel") + wait(hold) + say("lo.")]
    counts = []
    async with far(url, script, tools=[Act("look")]) as server:
        await server.send()
        await alone.reached()
        counts.append(rows(url))
        alone.release()
        await hold.reached()
        async with server.stream() as coming:
            await until(coming, "Hel")
            counts.append(rows(url))
            hold.release()
            assert [frame async for frame in coming]
        counts.append(rows(url))
    assert counts[0] == counts[2] == 0
    assert counts[1] > 0


async def test_a_conversation_that_another_process_deleted_stops_at_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The tool ends with the next check of the lease, and it is logged once."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def work(input: Any, invocation: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with far(url, [call("work")], tools=[Act("work", work)]) as server:
        await server.send()
        await started.wait()
        assert server.sent
        name = server.sent.session_id
        async with server.stream() as coming:
            assert (await anext(coming))[1]["type"] == "message_start"
            gone = await server.client.delete(f"{CHAT}/conversations/{name}")
            assert gone.status_code == 204
            await asyncio.wait_for(ended.wait(), 5)
            async for _ in coming:
                pass
    values = [each for each in caplog.messages if name in each]
    assert len(values) <= 1, values
