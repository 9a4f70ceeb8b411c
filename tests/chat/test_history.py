"""The history of a conversation as messages of the API."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock import Agent, ChatSettings, Hooks
from penstock.chat.history import History, HistoryPart, HistoryRange, HistoryView
from penstock.chat.requests import NewMessage
from penstock.core.errors import NotFound
from penstock.core.ids import MessageId, SessionId
from penstock.core.messages import ToolMessage
from penstock.models.model import ModelRequest
from penstock.models.scripted import (
    Hold,
    ScriptedModel,
    ScriptedReply,
    call,
    fail,
    say,
    wait,
)
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.server import InMemoryServer, served
from tests.kit.tools import Act


async def talk(server: InMemoryServer, *texts: str) -> SessionId:
    """Send these messages in one conversation."""
    session_id = None
    for text in texts:
        reply = await ask(server.runtime, text, session=session_id)
        session_id = reply.session_id
    assert session_id is not None
    return session_id


def history_of(server: InMemoryServer) -> History:
    """Return the history that the server shows."""
    history: History = server.app.state.lifecycle.context.history
    return history


async def page(server: InMemoryServer, session_id: SessionId, **requested: Any) -> HistoryPart:
    """Return a page."""
    return await history_of(server).page(session_id, HistoryRange(**requested))


def contents(result: HistoryPart) -> list[str | None]:
    """Return the contents of the messages."""
    return [message["content"] for message in result.messages]


async def test_all_pages_together_are_the_history() -> None:
    async with served() as server:
        session_id = await talk(server, *"abcd")
        whole = await page(server, session_id)
        assert contents(whole) == ["a", "Hello.", "b", "Hello.", "c", "Hello.", "d", "Hello."]
        part = await page(server, session_id, limit=3)
        collected = [*part.messages]
        while part.has_more:
            before = MessageId(part.messages[0]["id"])
            part = await page(server, session_id, limit=3, before=before)
            assert part.total == 8
            collected = [*part.messages, *collected]
        assert collected == list(whole.messages)


async def test_a_superseded_answer_leaves_the_history() -> None:
    """The old answer and all later messages leave the history permanently."""
    async with served() as server:
        session_id = await talk(server, "a", "b", "c")
        chapters = (await page(server, session_id)).messages
        first = chapters[2]["metadata"]["taskId"]
        again = NewMessage(content="b", session_id=session_id, supersedes=first)
        sent = await server.runtime.requests.send(again)
        await server.runtime.requests.wait(sent.task_id)
        assert contents(await page(server, session_id)) == ["a", "Hello.", "b", "Hello."]
        third = NewMessage(content="b", session_id=session_id, supersedes=sent.task_id)
        sent = await server.runtime.requests.send(third)
        await server.runtime.requests.wait(sent.task_id)
        result = await page(server, session_id)
        assert contents(result) == ["a", "Hello.", "b", "Hello."]
        assert result.total == 4
        assert contents(await page(server, session_id, view=HistoryView.FULL)) == contents(result)


async def test_a_message_that_is_answered_again_keeps_its_time() -> None:
    """Spec: regenerate answers "as POST chat, same `userMessage`"."""
    clock = FakeClock()
    async with served(clock=clock) as server:
        session_id = await talk(server, "a")
        (first, answer) = (await page(server, session_id)).messages
        task_id = first["metadata"]["taskId"]
        for _ in range(2):
            clock.advance(60)
            again = NewMessage(content="a", session_id=session_id, supersedes=task_id)
            task_id = (await server.runtime.requests.send(again)).task_id
            await server.runtime.requests.wait(task_id)
        (user, regenerated) = (await page(server, session_id)).messages
        assert user["createdAt"] == first["createdAt"]
        assert regenerated["createdAt"] > answer["createdAt"]


async def test_a_failed_task_shows_its_error_on_its_message() -> None:
    async with served(model=ScriptedModel([fail(400, "bad words")])) as server:
        session_id = await talk(server, "Hi")
        (message,) = (await page(server, session_id)).messages
    assert message["metadata"]["error"] == {"code": "MODEL_REFUSED", "message": "bad words"}


async def test_a_running_task_shows_only_its_message() -> None:
    hold = Hold()
    async with served(model=ScriptedModel([wait(hold) + say("x")])) as server:
        sent = await server.runtime.requests.send(NewMessage(content="Hi"))
        await hold.reached()
        result = await page(server, sent.session_id)
        assert (contents(result), result.total) == (["Hi"], 1)
        hold.release()


async def test_search_ignores_case() -> None:
    async with served() as server:
        session_id = await talk(server, "Größe", "other")
        assert contents(await page(server, session_id, search="GRÖSSE")) == ["Größe"]
        result = await page(server, session_id, search="hello", limit=1)
        assert (contents(result), result.total, result.has_more) == (["Hello."], 2, True)


async def test_tool_messages_follow_their_calls_in_order() -> None:
    model = ScriptedModel([call("a") + call("b"), say("Done.")])
    async with served(model=model, tools=[Act("a"), Act("b")]) as server:
        session_id = await talk(server, "Go")
        messages = (await page(server, session_id, view=HistoryView.FULL)).messages
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert messages[1]["content"] is None
    assert [each["id"] for each in messages[1]["toolCalls"]] == [
        each["toolCallId"] for each in messages[2:4]
    ]


async def test_an_unknown_message_is_not_found() -> None:
    async with served() as server:
        session_id = await talk(server, "Hi")
        with pytest.raises(NotFound, match="there is no message 'msg_x'"):
            await page(server, session_id, before=MessageId("msg_x"))
        assert (await page(server, SessionId("conv_none"))).messages == []


LONG = "x" * 900


def look(n: int) -> str:
    """Look."""
    return f"result {n} {LONG}"


def answer(request: ModelRequest) -> ScriptedReply:
    """Look once for each message; write a summary when asked to."""
    if request.system.startswith("You write the summary"):
        return say("They talked about tea.")
    if isinstance(request.messages[-1], ToolMessage):
        return say(f"It is there. {LONG}")
    return call("look", n=len(request.messages))


@pytest.mark.parametrize("way", ["summarise", "trim"])
async def test_the_full_view_is_what_the_model_reads(way: Any) -> None:
    """library.md 8.4: summaries, previews of earlier results, trimmed; originals stay readable."""
    model, place = ScriptedModel(answer), MemoryStorage()
    settings = ChatSettings(context_max_tokens=2_500, llm_max_tokens=100)
    clerk = Agent("clerk", tools=[look], settings=settings, history=way)
    history = History(place.log, place.log, lambda file: file.blob_id)
    async with memory_runtime(model=model, agents=[clerk], place=place) as runtime:
        reply = await runtime.chat("message 0", agent=clerk)
        for number in range(1, 8):
            reply = await runtime.chat(f"message {number}", agent=clerk, session=reply.session)
        kept = await runtime.history(reply.session)
    whole = await history.page(SessionId(reply.session), HistoryRange(limit=100))
    full = await history.page(
        SessionId(reply.session), HistoryRange(view=HistoryView.FULL, limit=100)
    )
    read = [*model.requests[-1].messages]
    shown = [each["content"] or "" for each in full.messages]
    assert shown[:-1] == [each.content for each in read]
    assert shown[-1] == reply.content
    assert any(each.startswith("[result removed: ") for each in shown)
    assert full.total == len(shown)
    assert (whole.total, len(kept)) == (16, 16)
    first = full.messages[0]
    if way == "summarise":
        tasks = first["metadata"]["summaryOf"]
        assert "They talked about tea." in first["content"]
        assert tasks == [each["metadata"]["taskId"] for each in whole.messages[::2]][: len(tasks)]
    else:
        assert first["content"] != "message 0"
    found = await history.page(
        SessionId(reply.session), HistoryRange(view=HistoryView.FULL, search="TALKED about")
    )
    assert found.total == (way == "summarise")


async def test_the_full_view_shows_messages_as_hooks_left_them() -> None:
    class Loud(Hooks):
        async def on_input(self, ctx: Any, message: Any) -> Any:
            return replace(message, text=message.text.upper())

    model, place = ScriptedModel([say("Hi.")]), MemoryStorage()
    async with memory_runtime(model=model, hooks=[Loud()], place=place) as runtime:
        reply = await runtime.chat("Hello")
    history = History(place.log, place.log, lambda file: file.blob_id)
    for view, text in ((HistoryView.FULL, "HELLO"), (HistoryView.CHAT, "Hello")):
        page = await history.page(SessionId(reply.session), HistoryRange(view=view))
        assert [each["content"] for each in page.messages] == [text, "Hi."]
