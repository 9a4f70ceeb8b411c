"""Long conversations: previews, then one summary, between tasks and never twice."""

from itertools import groupby, pairwise
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct
from msgspec.structs import replace

from penstock import Agent, ChatSettings, Fallback, Hooks, Limits, ModelSettings, Refuse, tool
from penstock.agents.transcript import TARGET_SHARE
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage, TaskReply
from penstock.core.errors import ConfigError
from penstock.core.events.events import NoteEmitted, TaskEnded
from penstock.core.events.history_events import Summarised
from penstock.core.ids import LogId, SessionId
from penstock.core.messages import ToolMessage
from penstock.engine.dialogue import PREVIEW_CHARACTERS, SUMMARY_HEAD
from penstock.models.model import ModelRequest
from penstock.models.prices import Prices
from penstock.models.scripted import SCRIPTED, ScriptedModel, ScriptedReply, call, fail, say
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live

LIMIT = 2_000
SETTINGS = ChatSettings(context_max_tokens=LIMIT, llm_max_tokens=100)


@tool(effect="read")
def look(n: int) -> str:
    """Look."""
    return f"result {n} " + "x" * 800


class Talk:
    """A conversation whose every message runs in a process of its own."""

    def __init__(
        self,
        *,
        summary: ScriptedReply | Exception | None = None,
        place: MemoryStorage | None = None,
        **options: Any,
    ) -> None:
        self.place = place or MemoryStorage(limits=Limits(shutdown_seconds=0))
        self.summary = summary or say("They talked about tea.")
        self.last = say("It is there. " + "y" * 300)
        self.model = ScriptedModel(self.answer)
        given: dict[str, Any] = {"history": "summarise", "settings": SETTINGS} | options
        self.agent = Agent("clerk", tools=[look], **given)
        self.session: str | None = None

    def answer(self, request: ModelRequest) -> ScriptedReply:
        if request.system.startswith("You write the summary"):
            if isinstance(self.summary, Exception):
                raise self.summary
            return self.summary
        if isinstance(request.messages[-1], ToolMessage):
            return self.last
        return call("look", n=len(request.messages))

    async def send(self, count: int) -> None:
        for number in range(count):
            model, agents = self.model, [self.agent]
            async with memory_runtime(model=model, agents=agents, place=self.place) as runtime:
                reply = await runtime.chat(f"message {number}", agent="clerk", session=self.session)
            assert reply.error is None
            self.session = reply.session

    async def events(self, kind: type) -> list[Any]:
        records = await self.place.log.read(LogId(self.session or ""))
        return [each.event for each in records if isinstance(each.event, kind)]

    def is_summary(self, request: ModelRequest) -> bool:
        return request.system.startswith("You write the summary")


async def test_results_of_finished_tasks_become_previews_before_anything_is_summarised() -> None:
    talk = Talk()
    await talk.send(7)
    first, *_ = await talk.events(Summarised)
    assert (first.text, first.tasks) == ("", ())
    short = next(
        request
        for request in talk.model.requests
        if any("[result removed: " in each.content for each in request.messages)
    )
    results = [each.content for each in short.messages if isinstance(each, ToolMessage)]
    assert all(len(each) < PREVIEW_CHARACTERS + 20 for each in results)
    assert short.messages[0].content == "message 0"


async def test_a_summary_replaces_the_oldest_tasks_as_data_and_is_not_written_twice() -> None:
    talk = Talk()
    await talk.send(24)
    written = [each for each in await talk.events(Summarised) if each.text]
    assert len(written) == sum(map(talk.is_summary, talk.model.requests)) >= 2
    assert set(written[0].tasks) < set(written[1].tasks)
    newest = talk.model.requests[-1].messages
    assert newest[0].content == f"{SUMMARY_HEAD}\nThey talked about tea."
    assert "They talked about tea." in talk.model.requests[-1].messages[0].content
    asked = next(each for each in talk.model.requests if talk.is_summary(each))
    assert (asked.tools, len(asked.messages)) == ((), 1)
    assert "person: message 0" in asked.messages[0].content


async def test_a_request_begins_with_the_one_before_except_where_the_history_is_shortened() -> None:
    """Models §7: the only allowed change is one step."""
    talk = Talk()
    await talk.send(24)
    requests = [each for each in talk.model.requests if not talk.is_summary(each)]
    broken = sum(
        list(after.messages[: len(before.messages)]) != list(before.messages)
        for before, after in pairwise(requests)
    )
    assert broken == len(await talk.events(Summarised))


async def test_one_step_leaves_at_most_half_of_the_limit() -> None:
    talk = Talk()
    await talk.send(24)
    sizes = [
        sum(len(message.content) for message in request.messages) / 4
        for request in talk.model.requests
        if request.messages[0].content.startswith(SUMMARY_HEAD)
    ]
    assert min(sizes) < LIMIT / 2
    assert max(sizes) < LIMIT


async def killed_at(write: int, *, sent: int) -> tuple[Talk, DyingLog]:
    """Send messages, and one more whose process dies at a write; the next process ends its task."""
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    talk = Talk(place=MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0)))
    await talk.send(sent)
    before = log.writes
    log.die_at(before + write)
    while True:
        async with memory_runtime(
            model=talk.model, agents=[talk.agent], place=talk.place
        ) as runtime:
            if await live(runtime, log, ending(runtime, talk, sent)) is not None:
                log.writes -= before
                return talk, log
        log.revive()
        clock.advance(talk.place.limits.lease_seconds + 1)


async def ending(runtime: Runtime, talk: Talk, sent: int) -> TaskReply:
    """Send a message unless it is there, and wait for its reply."""
    tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
    if len(tasks) == sent:
        session = SessionId(talk.session or "")
        message = NewMessage(content=f"message {sent}", agent="clerk", session_id=session)
        task_id = (await runtime.requests.send(message)).task_id
    else:
        task_id = tasks[0].task_id
    reply = await runtime.requests.wait(task_id)
    assert reply is not None
    return reply


@pytest.mark.chaos
async def test_a_crash_around_a_summary_leads_to_the_same_requests() -> None:
    """The summary is on disk before the first reply is asked for, and is not written again."""
    whole = Talk()
    await whole.send(24)
    asked = whole.model.requests
    first = next(number for number, each in enumerate(asked) if whole.is_summary(each))
    sent = sum(not isinstance(each.messages[-1], ToolMessage) for each in asked[:first])
    uncut, log = await killed_at(-1, sent=sent)
    expected = uncut.model.requests[first:]
    assert [whole.is_summary(each) for each in expected] == [True, False, False]
    counts = []
    for write in range(1, log.writes + 1):
        talk, _ = await killed_at(write, sent=sent)
        rest = talk.model.requests[first:]
        counts.append(sum(map(whole.is_summary, rest)))
        seen = [contents(each) for each in rest if not whole.is_summary(each)]
        assert [each for each, _ in groupby(seen)] == [*map(contents, expected[1:])], write
        assert len([each for each in await talk.events(Summarised) if each.text]) == 1
    # A process that dies before it has stored the summary has asked for it already.
    assert counts == sorted(counts, reverse=True)
    assert {*counts} == {1, 2}


def contents(request: ModelRequest) -> list[str]:
    """Return what a model reads, which ids of tasks and messages do not change."""
    return [request.system, *[each.content for each in request.messages]]


@pytest.mark.parametrize("summary", [fail(400, "no"), say(" "), ValueError("a bug in a model")])
async def test_a_summary_that_fails_is_a_warning_and_the_history_is_trimmed(
    summary: ScriptedReply | Exception,
) -> None:
    talk = Talk(summary=summary)
    await talk.send(24)
    assert not any(each.text for each in await talk.events(Summarised))
    warnings = await talk.events(NoteEmitted)
    assert {each.event_type for each in warnings} == {"summary_failed"}
    assert "could not be summarised" in warnings[0].message


async def test_the_summary_model_writes_and_its_tokens_count() -> None:
    card = replace(SCRIPTED, prices=Prices(input=1, output=1))
    writer = ScriptedModel(lambda _: say("Short."), card=card)
    talk = Talk(summary_model=writer)
    await talk.send(24)
    assert writer.requests
    assert not any(map(talk.is_summary, talk.model.requests))
    written = [each for each in await talk.events(Summarised) if each.text]
    assert all(each.usage.output_tokens and each.usage.cost_usd for each in written)


async def test_the_request_for_a_summary_counts_for_its_task() -> None:
    """In the usage of the task, and against its budget of requests."""
    talk = Talk()
    await talk.send(24)
    records = await talk.place.log.read(LogId(talk.session or ""))
    summarised = {
        each.task_id for each in records if isinstance(each.event, Summarised) and each.event.text
    }
    ends = {each.task_id: each.event for each in records if isinstance(each.event, TaskEnded)}
    calls = {task_id: end.usage.model_calls for task_id, end in ends.items()}
    assert {calls[task_id] for task_id in summarised} == {3}
    assert {count for task_id, count in calls.items() if task_id not in summarised} == {2}


async def test_a_summary_that_is_far_too_long_is_cut() -> None:
    talk = Talk(summary=say("z" * 20_000))
    await talk.send(24)
    written = [each for each in await talk.events(Summarised) if each.text]
    assert {len(each.text) for each in written} == {2 * 4 * LIMIT // 8}


class Ticket(Struct):
    """A ticket."""

    title: str
    priority: Annotated[str, Meta(description="How soon it must be done. " * 120)]


@pytest.mark.parametrize(
    "options",
    [
        {"model_settings": ModelSettings(max_tokens=1_200)},
        {"output": Ticket, "output_mode": "prompted"},
    ],
)
async def test_no_task_is_left_out_without_a_summary_because_replies_are_long(
    options: dict[str, Any],
) -> None:
    talk = Talk(settings=ChatSettings(llm_max_tokens=100), **options)
    talk.model.card = replace(SCRIPTED, context_tokens=3_400)
    if "output" in options:
        talk.last = say('{"title": "' + "y" * 300 + '", "priority": "low"}')
    await talk.send(16)
    left_out = [each for each in await talk.events(Summarised) if each.tasks]
    assert left_out
    assert all(each.text for each in left_out)


async def test_a_summary_model_is_asked_for_no_more_than_it_reads() -> None:
    reader = ScriptedModel(lambda _: say("They talked about tea."))
    reader.card = replace(SCRIPTED, model_id="small", context_tokens=1_000)
    talk = Talk(summary_model=reader)
    await talk.send(12)
    sizes = {len(each.messages[0].content) // 4 for each in reader.requests}
    assert 400 < max(sizes) < 1_000
    assert all(each.estimated_tokens > 400 for each in reader.requests)


@pytest.mark.parametrize(("name", "has_summary"), [("offline", True), ("nobody", False)])
async def test_a_fallback_writes_summaries_and_a_wrong_name_in_it_fails_no_task(
    name: str, has_summary: bool
) -> None:
    reader = ScriptedModel(lambda _: say("They talked about tea."))
    reader.card = replace(SCRIPTED, model_id="small")
    talk = Talk(summary_model=Fallback(reader, name))
    await talk.send(12)
    cuts = {bool(each.text) for each in await talk.events(Summarised) if each.tasks}
    notes = {each.event_type for each in await talk.events(NoteEmitted)}
    assert cuts == {has_summary}
    assert notes == (set() if has_summary else {"summary_failed"})


class Filter(Hooks[Any]):
    """Replaces a word in requests, or refuses those for summaries."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.asked = 0
        self._refuses = refuses

    async def before_model(self, ctx: Any, request: ModelRequest) -> ModelRequest | Refuse:
        self.asked += 1
        if self._refuses and request.system.startswith("You write the summary"):
            return Refuse("No summaries.")
        first = request.messages[0]
        changed = replace(first, content=first.content.replace("message", "***"))
        return replace(request, messages=[changed, *request.messages[1:]])


async def test_hooks_filter_what_is_summarised() -> None:
    talk = Talk(hooks=[hook := Filter()])
    await talk.send(12)
    asked = [each.messages[0].content for each in talk.model.requests if talk.is_summary(each)]
    assert asked
    assert all("person: *** 0" in each and "message" not in each for each in asked)
    assert hook.asked == len(talk.model.requests)


async def test_a_hook_that_refuses_a_summary_ends_the_task() -> None:
    talk = Talk(hooks=[Filter(refuses=True)])
    async with memory_runtime(model=talk.model, agents=[talk.agent]) as runtime:
        reply = await runtime.chat("message", agent="clerk")
        for _ in range(12):
            if reply.error is None:
                reply = await runtime.chat("message", agent="clerk", session=reply.session)
    assert reply.error
    assert (reply.error.code, reply.error.message) == ("HOOK_REFUSED", "No summaries.")
    assert not any(map(talk.is_summary, talk.model.requests))


async def test_a_task_without_a_budget_for_a_summary_leaves_its_oldest_tasks_out() -> None:
    dear, cheap = (replace(SCRIPTED, prices=Prices(input=usd, output=usd)) for usd in (9.0, 0.001))
    writer = ScriptedModel(lambda _: say("Short."), card=dear)
    talk = Talk(summary_model=writer, settings=replace(SETTINGS, budget_cost_usd=0.001))
    talk.model = ScriptedModel(talk.answer, card=cheap)
    await talk.send(24)
    assert writer.requests == []
    cuts = await talk.events(Summarised)
    assert any(each.tasks for each in cuts)
    assert not any(each.text for each in cuts)


async def test_a_conversation_is_only_trimmed_unless_its_agent_says_otherwise() -> None:
    talk = Talk(history="trim")
    await talk.send(24)
    cuts = await talk.events(Summarised)
    assert any(each.tasks for each in cuts)
    assert not any(each.text or each.usage.input_tokens for each in cuts)
    assert not any(map(talk.is_summary, talk.model.requests))
    assert talk.model.requests[-1].messages[0].content.startswith("message ")


@pytest.mark.parametrize("history", ["trim", "summarise"])
async def test_previews_come_first_and_one_step_is_enough_for_30_percent(history: str) -> None:
    talk = Talk(history=history)
    await talk.send(40)
    cuts = await talk.events(Summarised)
    assert (cuts[0].tasks, cuts[0].text) == ((), "")
    requests = [each for each in talk.model.requests if not talk.is_summary(each)]
    steps = [
        size_of(after)
        for before, after in pairwise(requests)
        if list(after.messages[: len(before.messages)]) != list(before.messages)
    ]
    assert len(steps) == len(cuts) > 2
    assert max(steps) <= LIMIT * TARGET_SHARE


def size_of(request: ModelRequest) -> float:
    return sum(len(each.content) for each in request.messages) / 4


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ConfigError, match="history must be trim or summarise; found 'cut'"):
        Talk(history="cut")
