"""A reasoning model of OpenAI over HTTP: its reasoning returns to it, and to no other model."""

import signal
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from penstock import Agent, ChatSettings
from penstock.chat.requests import TaskReply as Outcome
from penstock.core.errors import ContextTooLarge, ModelError, ModelRefused, ModelUnavailable
from penstock.core.events.events import NoteEmitted
from penstock.core.limits import Limits
from penstock.core.messages import UserMessage
from penstock.core.task import TaskStatus
from penstock.models.model import Finished, ModelEvent, ModelRequest, TextDelta
from penstock.models.providers import ModelConfig
from penstock.models.wires.responses import ResponsesModel
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.dying_log import DyingLog, outlived
from tests.kit.fakes.provider import Asked, Fault, Refused, Reply, Said, Thought, replying
from tests.kit.fakes.responses import FakeResponses
from tests.kit.killed_program import KilledProgram
from tests.kit.logs import events
from tests.kit.questions import go_on, mail
from tests.kit.tools import Act

pytestmark = pytest.mark.programs
KEY = "sk-secret-of-ours"
CALLS = 5
WRITES = 7
"""How often the log of the loop below is written when no process dies."""


def model(
    server: FakeResponses, name: str = "gpt-6-sol", organization: str | None = None
) -> ResponsesModel:
    config = ModelConfig(
        name=f"m-{name}",
        provider="openai-responses",
        model=name,
        base_url=f"{server.url}/v1",
        api_key=KEY,
        key_env="KEY",
        organization=organization,
    )
    return ResponsesModel(config, Limits())


def looping(body: dict[str, Any]) -> Reply:
    """Ask for five calls, one after the other, and think before each."""
    done = sum(item["type"] == "function_call_output" for item in body["input"][1:])
    if done == CALLS:
        return replying(Thought("enough"), Said("Done."))
    return replying(Thought(f"step {done}"), Said("So:"), Thought(""), Asked("look", {"n": done}))


async def tell(log: DyingLog, asked: ResponsesModel) -> Outcome:
    """Run the loop in as many lives as it takes."""
    return await outlived(log, "Go", model=asked, tools=[Act("look")])


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_loop_killed_at_any_write_sends_the_same_requests(
    writes: int, before: bool
) -> None:
    async with FakeResponses().serving() as server:
        server.script = looping
        asked, clock = model(server), FakeClock()
        log = DyingLog(clock, writes=writes, before=before)
        reply = await tell(log, asked)
        await asked.close()
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "Done.")
    assert server.refusals == []
    assert len(set(server.bodies)) == CALLS + 1
    assert len(server.bodies) <= CALLS + 2
    last = server.requests[-1]["input"]
    assert [item["type"] for item in last[1:5]] == [
        "reasoning",
        "message",
        "reasoning",
        "function_call",
    ]


async def test_every_write_of_the_loop_is_tried() -> None:
    async with FakeResponses().serving() as server:
        server.script = looping
        asked, clock = model(server), FakeClock()
        log = DyingLog(clock, writes=-1, before=False)
        await tell(log, asked)
        await asked.close()
    assert log.writes == WRITES


async def test_a_reply_of_another_model_is_sent_without_reasoning_and_ids() -> None:
    """A answers, then B, then A again: each reads only its own reasoning."""
    thinking = replying(Thought("hm"), Said("Hi."))
    async with FakeResponses(thinking, thinking, thinking, thinking).serving() as server:
        first, second = model(server), model(server, "gpt-5.6-sol")
        place = MemoryStorage()
        session = None
        for asked in (first, second, first, second):
            async with memory_runtime(model=asked, place=place) as runtime:
                session = (await ask(runtime, "Hello", session=session)).session_id
    assert server.refusals == []
    sent = [[item.get("id", "")[:4] for item in body["input"]] for body in server.requests]
    own, foreign, asking = ["rs_1", "msg_"], [""], [""]
    assert sent[1] == asking + foreign + asking
    assert sent[2] == asking + own + asking + foreign + asking
    assert sent[3] == asking + foreign + asking + ["rs_2", "msg_"] + asking + foreign + asking


async def test_refused_reasoning_is_left_out_for_good() -> None:
    """An organization that changed its key reads nothing that is older."""
    calling, ending = replying(Thought(), Asked("look")), replying(Thought(), Said("Done."))
    async with (
        FakeResponses(calling, ending, ending).serving() as server,
        memory_runtime(model=model(server), tools=[Act("look")]) as runtime,
    ):
        server.after_reply = lambda: setattr(server, "organization", "org-2")
        reply = await ask(runtime, "Go")
        await ask(runtime, "Again", session=reply.session_id)
        found = await events(runtime, reply.session_id)
    assert reply.content == "Done."
    assert len(server.refusals) == 1
    assert "could not be verified" in server.refusals[0]
    kinds = [[item.get("type") for item in body["input"]] for body in server.requests]
    assert kinds[1][1:] == ["reasoning", "function_call", "function_call_output"]
    assert kinds[2][1:] == ["function_call", "function_call_output"]
    assert kinds[3][1:4] == ["function_call", "function_call_output", "reasoning"]
    assert [each.event_type for each in found if isinstance(each, NoteEmitted)] == ["carry_dropped"]


async def test_reasoning_of_another_organization_is_not_sent() -> None:
    thinking = replying(Thought("hm"), Said("Hi."))
    async with FakeResponses(*[thinking] * 3).serving() as server:
        place, session = MemoryStorage(), None
        for name in ("org-a", "org-b", "org-a"):
            asked = model(server, organization=name)
            async with memory_runtime(model=asked, place=place) as runtime:
                session = (await ask(runtime, "Hello", session=session)).session_id
    assert server.refusals == []
    assert [
        f"openai-organization: {name}" in head.lower()
        for head, name in zip(server.heads, ("org-a", "org-b", "org-a"), strict=True)
    ] == [True] * 3
    assert [str(body["input"]).count("encrypted_content") for body in server.requests] == [0, 0, 1]


async def test_arguments_that_a_person_edited_do_not_reach_the_model() -> None:
    """The model reads what it wrote, as it spelled it; the tool got what the person wrote."""
    tool = mail()
    answers = replying(Thought(), Asked("mail", {"to": "ann"})), replying(Said("Done."))
    async with (
        FakeResponses(*answers).serving() as server,
        memory_runtime(model=model(server), tools=[tool]) as runtime,
    ):
        parked = await ask(runtime, "Mail Ann")
        await go_on(runtime, parked, {"decision": "approve", "input": {"to": "bob"}})
    assert tool.runs == [{"to": "bob"}]
    assert server.refusals == []
    calls = [each for each in server.requests[1]["input"] if each["type"] == "function_call"]
    assert [each["arguments"] for each in calls] == ['{"to": "ann"}']


async def test_a_server_that_refuses_all_reasoning_is_asked_twice() -> None:
    calling = replying(Thought(), Asked("look"))
    refused = Fault(400, "Item 'rs_1' was provided without its required following item.", "x")
    async with (
        FakeResponses(calling, refused, refused, refused).serving() as server,
        memory_runtime(model=model(server), tools=[Act("look")]) as runtime,
    ):
        reply = await ask(runtime, "Go")
    assert reply.status is TaskStatus.FAILED
    assert len(server.bodies) == 3


async def test_a_refused_message_is_not_read_again() -> None:
    answers = replying(Refused("I cannot help.")), replying(Said("Hi."))
    async with (
        FakeResponses(*answers).serving() as server,
        memory_runtime(model=model(server)) as runtime,
    ):
        reply = await ask(runtime, "Something bad")
        await ask(runtime, "Hello", session=reply.session_id)
    assert (reply.content, reply.finish_reason) == ("I cannot help.", "content_filter")
    assert [item["content"][0]["text"] for item in server.requests[1]["input"]] == ["Hello"]


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (Fault(400, "No.", "invalid_request_error"), ModelRefused, "answered 400: No."),
        (Fault(400, "No.", "x", {"x-request-id": "r1"}), ModelRefused, "400: No. (request r1)"),
        (Fault(401, f"Bad {KEY}", "invalid_api_key"), ModelRefused, "Bad [key]; check the key in"),
        (Fault(404, "No model", "model_not_found"), ModelRefused, "check base_url and model"),
        (Fault(400, "No.", "context_length_exceeded"), ContextTooLarge, "answered 400: No."),
        (Fault(429, "Pay.", "insufficient_quota"), ModelRefused, "answered 429: Pay."),
        (Fault(429, "You exceeded your current quota.", ""), ModelRefused, "current quota"),
        (Fault(429, "Slow.", "rate_limit_exceeded"), ModelUnavailable, "answered 429: Slow."),
        (Fault(500, "Oh.", "server_error"), ModelUnavailable, "answered 500: Oh."),
        (Fault(529, "Busy.", "overloaded"), ModelUnavailable, "answered 529: Busy."),
        (Fault(400, "No.", "x", {"x-should-retry": "true"}), ModelUnavailable, "No."),
        (Fault(500, "No.", "x", {"x-should-retry": "false"}), ModelRefused, "No."),
        (replying(Said("Hi"), error_after=4), ModelUnavailable, "Overloaded"),
        (replying(Said("Hi"), cut_after=5), ModelUnavailable, "broke off"),
    ],
)
async def test_failures(answer: Fault | Reply, error: type[ModelError], message: str) -> None:
    async with FakeResponses(answer).serving() as server:
        asked = model(server)
        with pytest.raises(ModelError) as caught:
            await told(asked)
        await asked.close()
    assert type(caught.value) is error
    assert message in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "way",
    [
        {},
        {"single_bytes": True},
        {"crlf": True},
        {"pings": True},
        {"unknown_events": True},
        {"doubled": True},
        {"single_bytes": True, "crlf": True, "pings": True, "unknown_events": True},
    ],
    ids=str,
)
async def test_a_reply_is_read_however_it_arrives(way: dict[str, Any]) -> None:
    reply = replying(Thought("hm"), Said("Hello you."), **way)
    async with FakeResponses(reply).serving() as server:
        asked = model(server)
        found = await told(asked)
        await asked.close()
    assert "".join(each.text for each in found if isinstance(each, TextDelta)) == "Hello you."
    last = found[-1]
    assert isinstance(last, Finished)
    assert (last.reason, last.response_id, last.usage.reasoning_tokens) == ("stop", "resp_1", 4)
    assert last.carry is not None


async def test_a_reply_cut_at_any_event_may_be_retried() -> None:
    count = len(FakeResponses().events(replying(Said("Hi")), {"model": "m"}))
    cut = [replying(Said("Hi"), cut_after=number) for number in range(count)]
    async with FakeResponses(*cut).serving() as server:
        asked = model(server)
        for _ in cut:
            with pytest.raises(ModelUnavailable):
                await told(asked)
        await asked.close()


async def test_each_of_fifty_requests_begins_with_the_one_before() -> None:
    answers = [replying(Thought(), Asked("look")), replying(Thought(), Said("Done."))]
    async with (
        FakeResponses(*answers * 25).serving() as server,
        memory_runtime(model=model(server), tools=[Act("look")]) as runtime,
    ):
        reply = await ask(runtime, "Go")
        for _ in range(24):
            reply = await ask(runtime, "Go on", session=reply.session_id)
    assert (reply.content, server.refusals) == ("Done.", [])
    texts = [server.prefix(body).removesuffix("]]") for body in server.requests]
    assert len(texts) == 50
    assert all(after.startswith(before) for before, after in pairwise(texts))
    assert reply.usage.cached_tokens > 0.9 * reply.usage.input_tokens


class Ticket(Struct):
    """A report."""

    title: str


async def test_the_last_requests_for_a_typed_output_keep_prefix_and_reasoning() -> None:
    """Two calls, a note, a call that is refused, a wrong answer and a right one."""
    look = replying(Thought(), Asked("look"))
    answers = [
        replying(Thought(), Asked("final_answer", {"title": title})) for title in (7, "fire")
    ]
    async with FakeResponses(look, look, look, *answers).serving() as server:
        agent = Agent(
            "clerk",
            model=(asked := model(server)),
            tools=[looking := Act("look")],
            output=Ticket,
            settings=ChatSettings(max_iterations=2),
        )
        async with memory_runtime(agents=[agent]) as runtime:
            reply = await runtime.chat("Go", agent=agent)
        await asked.close()
    assert (reply.output, server.refusals) == (Ticket("fire"), [])
    assert len(looking.runs) == 2
    texts = [server.prefix(body).removesuffix("]]") for body in server.requests]
    assert all(after.startswith(before) for before, after in pairwise(texts))
    assert [text.count("encrypted_content") for text in texts] == [0, 1, 2, 3, 4]
    named = {"type": "function", "name": "final_answer"}
    choices = [body["tool_choice"] for body in server.requests]
    assert choices == ["required", "required", named, named, named]


async def test_a_temperature_is_left_out_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeResponses(*[replying(Said("Hi"))] * 3).serving() as server:
        asked = model(server)
        for _ in range(2):
            await told(asked, temperature=0.5)
        await told(asked, temperature=0.5, thinking="off")
        await asked.close()
    assert caplog.messages == [
        "the model 'm-gpt-6-sol' reasons, so it accepts no temperature and no top_p"
    ]
    assert ["temperature" in body for body in server.requests] == [False, False, True]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "7"}, 7.0),
        (
            {
                "date": "Mon, 23 Nov 2026 10:00:00 GMT",
                "retry-after": "Mon, 23 Nov 2026 10:00:20 GMT",
            },
            20.0,
        ),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
async def test_a_server_that_is_busy_names_its_wait(
    headers: dict[str, str], seconds: float | None
) -> None:
    async with FakeResponses(Fault(429, "Slow.", "x", headers)).serving() as server:
        asked = model(server)
        with pytest.raises(ModelUnavailable) as caught:
            await told(asked)
        await asked.close()
    assert caught.value.retry_after == seconds


async def told(asked: ResponsesModel, **fields: Any) -> list[ModelEvent]:
    request = ModelRequest(**{"system": "", "messages": [UserMessage("hi")], **fields})
    return [each async for each in asked.stream(request)]


KILLED_AT = (2, 4)
"""Requests of the loop at which its process is killed, while it waits for the reply."""


@pytest.mark.slow("starts and kills processes")
async def test_a_process_killed_within_the_loop_sends_the_same_bytes(tmp_path: Path) -> None:
    whole = await killed_loop(tmp_path / "whole", 0)
    assert len(whole.bodies) == CALLS + 1
    for killed_at in KILLED_AT:
        fake = await killed_loop(tmp_path / f"killed at {killed_at}", killed_at)
        assert fake.refusals == []
        assert without_key(fake) == without_key(whole)


def without_key(fake: FakeResponses) -> list[bytes]:
    """Return the requests, each once, without the key of their cache: it names a conversation."""
    (key,) = {each["prompt_cache_key"].encode() for each in fake.requests}
    return [body.replace(key, b"") for body, _ in groupby(fake.bodies)]


async def killed_loop(place: Path, killed_at: int) -> FakeResponses:
    """Run the loop in a process that is killed at a request, and in another one to its end."""
    async with FakeResponses().serving() as server:
        program = KilledProgram(place, f"{server.url}/v1", "openai-responses", "gpt-6-sol")

        def answer(body: dict[str, Any]) -> Reply:
            if len(server.bodies) == killed_at:
                program.kill()
            return looping(body)

        server.script = answer
        if killed_at:
            assert (await program.run())[0] == -signal.SIGKILL
        assert await program.run() == (0, "Done.")
        return server
