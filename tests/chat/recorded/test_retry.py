"""Retries: tasks that failed or were cancelled start again, whole or before the failure."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import penstock
from penstock import ToolContext, ToolFailed, tool
from penstock.app.runtime import Runtime
from penstock.chat.recorded.retry import before_failure
from penstock.core.call import CallPath
from penstock.core.call_errors import Cancelled, Interrupted, ToolTimeout
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.errors import (
    InvalidRequest,
    NotFound,
    SessionBusy,
    TaskOver,
    TaskRunning,
    TextErased,
)
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.events import (
    CallSettled,
    CallStarted,
    Entry,
    Event,
    Record,
    TaskEnded,
    TaskStarted,
)
from penstock.core.events.flow_events import Outcome, StepResult, StepSettled, StepStarted
from penstock.core.ids import LogId, ProfileId, TaskId, retried, retry_id
from penstock.core.limits import Limits
from penstock.core.profile import CHAT, Profile
from penstock.core.task import TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, call, fail, say, wait
from penstock.store.projections import Page, TasksOf
from penstock.testing.runtime import MemoryStorage, memory_runtime

BOUGHT: list[str] = []
SOLD_OUT: set[str] = set()


@pytest.fixture(autouse=True)
def _open_shop() -> None:
    BOUGHT.clear()
    SOLD_OUT.clear()


@tool(direct_call=True)
def buy(item: str) -> str:
    """Buy an item."""
    if item in SOLD_OUT:
        raise ToolFailed(f"{item} is sold out", continuable=False)
    BOUGHT.append(item)
    return f"bought {item}"


@tool(direct_call=True, effect="none")
async def set_of_two(ctx: ToolContext) -> str:
    """Buy two things."""
    for item in ("tea", "cup"):
        if (error := (await ctx.call("buy", {"item": item})).error) is not None:
            raise ToolFailed(error.message)
    return "both"


@tool(effect="none")
async def plan(ctx: ToolContext) -> list[Any]:
    """Have a child do it, whatever comes of it."""
    first = await ctx.spawn("Find the tea", key="tea", input={"shop": "Nord"})
    second = await ctx.spawn("Now boil it", key="boil", after={"tea": first}, settled=True)
    return [each.status for each in await ctx.gather(first, second, settled=True)]


TOOLS: list[Any] = [buy, set_of_two, plan]
TEA = call("buy", item="tea")
HTTP_400 = fail(400)


async def reply_of(runtime: Runtime, task_id: str) -> tuple[str, str]:
    """Return how a task ended, and its answer."""
    reply = await runtime.attach(task_id).reply()
    return reply.status, reply.content


async def texts(runtime: Runtime, session: str | None) -> list[str]:
    assert session
    return [each.text for each in await runtime.history(session)]


async def test_a_retry_answers_a_message_again_in_the_place_of_the_missing_answer() -> None:
    """Spec: `fresh`: nothing is taken over; "its answer takes the place of the missing one"."""
    model = ScriptedModel([TEA, HTTP_400, TEA, say("Here it is."), say("Yes.")])
    async with memory_runtime(model=model, tools=TOOLS) as runtime:
        failed = await runtime.chat("Tea, please")
        assert failed.status == "failed"
        retry = await runtime.retry(failed.task_id)
        assert retry == f"retry_{failed.task_id}"
        assert await reply_of(runtime, retry) == ("succeeded", "Here it is.")
        assert BOUGHT == ["tea", "tea"]
        assert await texts(runtime, failed.session) == ["Tea, please", "Here it is."]
        await runtime.chat("Warm?", session=failed.session)
        asked = [each.content for each in model.requests[-1].messages]
        assert asked == ["Tea, please", "", "bought tea", "Here it is.", "Warm?"]


async def test_a_retry_that_resumes_makes_no_settled_call_again() -> None:
    """Spec: `resume`: fork just before the failure."""
    model = ScriptedModel([TEA, HTTP_400, say("Here it is.")])
    async with memory_runtime(model=model, tools=TOOLS) as runtime:
        failed = await runtime.chat("Tea, please")
        retry = await runtime.retry(failed.task_id, resume=True)
        assert await reply_of(runtime, retry) == ("succeeded", "Here it is.")
        assert BOUGHT == ["tea"]
        assert await texts(runtime, failed.session) == ["Tea, please"]
        record = await runtime.parts.storage.projections.find_task(TaskId(retry))
        assert record
        assert await texts(runtime, record.log_id) == ["Tea, please", "Here it is."]


@pytest.mark.parametrize(
    ("resume", "bought"), [(False, ["tea", "tea", "cup"]), (True, ["tea", "cup"])]
)
async def test_a_direct_call_is_made_again_whole_or_from_the_call_that_failed(
    *, resume: bool, bought: list[str]
) -> None:
    SOLD_OUT.add("cup")
    async with memory_runtime(tools=TOOLS) as runtime:
        envelope = await runtime.call("set_of_two", {}, task_id=TaskId("task_1"))
        assert envelope.status is Status.FAILED
        SOLD_OUT.clear()
        retry = await runtime.retry("task_1", resume=resume)
        reply = await runtime.requests.wait(retry)
        assert reply
        assert reply.envelope == Envelope(Status.SUCCESS, "both")
        assert bought == BOUGHT


async def test_the_same_request_returns_the_same_retry_until_that_failed_too() -> None:
    """Retries of a retry count with those of the task."""
    model = ScriptedModel([HTTP_400, HTTP_400, say("Now."), say("Never.")])
    async with memory_runtime(model=model) as runtime:
        failed = await runtime.chat("Hi")
        first = await runtime.retry(failed.task_id)
        assert (await reply_of(runtime, first))[0] == "failed"
        second = await runtime.retry(first)
        assert second == f"retry_{failed.task_id}.2"
        assert await reply_of(runtime, second) == ("succeeded", "Now.")
        for task_id in (failed.task_id, first, second):
            for resume in (False, True):
                assert await runtime.retry(task_id, resume=resume) == second
        assert await texts(runtime, failed.session) == ["Hi", "Now."]
        assert len(model.requests) == 3


@pytest.mark.parametrize("resume", [False, True])
async def test_ten_requests_at_once_start_one_retry(*, resume: bool) -> None:
    model = ScriptedModel([HTTP_400, say("Now."), say("Never.")])
    async with memory_runtime(model=model) as runtime:
        failed = await runtime.chat("Hi")
        asked = (runtime.retry(failed.task_id, resume=resume) for _ in range(10))
        retries = await asyncio.gather(*asked)
        assert set(retries) == {f"retry_{failed.task_id}"}
        assert await reply_of(runtime, retries[0]) == ("succeeded", "Now.")
        assert len(model.requests) == 2


async def test_a_child_is_retried_below_no_parent() -> None:
    """Spec: "A parent never sees the retry of its child"."""
    script: dict[str, Any] = {
        "Go": [call("plan"), say("Done.")],
        "Find the tea": [HTTP_400, say("3 EUR")],
        "Now boil it": [HTTP_400, say("Hot.")],
    }
    model = ScriptedModel(script)
    async with memory_runtime(model=model, tools=TOOLS) as runtime:
        root = await runtime.chat("Go")
        assert root.status == "succeeded"
        lists = runtime.parts.storage.projections
        children, _ = await lists.tasks(of=TasksOf(kind="child"), page=Page(limit=9))
        assert {each.status for each in children} == {TaskStatus.FAILED}
        with pytest.raises(InvalidRequest, match='"resume" is not for children'):
            await runtime.retry(children[0].task_id, resume=True)
        for child, answer in zip(
            sorted(children, key=lambda each: each.task_key or ""), ("Hot.", "3 EUR"), strict=True
        ):
            retry = await runtime.retry(child.task_id)
            reply = await runtime.requests.wait(retry)
            assert reply
            assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, answer)
            record = await lists.find_task(TaskId(retry))
            assert record
            assert (record.parent_id, record.root_id, record.kind) == (None, retry, "child")
        below, _ = await lists.tasks(of=TasksOf(root_id=TaskId(root.task_id)), page=Page(limit=9))
        assert {each.task_id for each in below} == {each.task_id for each in children}
        read = model.requests[-1].messages[-1].content
        assert '"shop":"Nord"' in read


async def test_a_retry_of_a_child_that_a_crash_left_waits_for_no_end_that_came() -> None:
    """The process died between the request of the retry and the reports of its dependencies."""
    script: dict[str, Any] = {
        "Go": [call("plan"), say("Done.")],
        "Find the tea": say("3 EUR"),
        "Now boil it": [HTTP_400, say("Hot.")],
    }
    async with memory_runtime(model=ScriptedModel(script), tools=TOOLS) as runtime:
        await runtime.chat("Go")
        lists, log = runtime.parts.storage.projections, runtime.parts.storage.log
        of = TasksOf(status=TaskStatus.FAILED)
        ((child, *_), _) = await lists.tasks(of=of, page=Page(limit=9))
        ((asked, *_)) = await log.read(child.log_id, limit=1)
        assert isinstance(asked.event, ChildRequested)
        new = retry_id(child.task_id, 1)
        alone = replace(asked.event, parent=TaskId(""), parent_log=LogId(""), root=new)
        await log.send(LogId(new), [Entry(alone, new)])
        assert await runtime.retry(child.task_id) == new
        reply = await runtime.requests.wait(new, seconds=5)
        assert reply
        assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "Hot.")


async def test_what_runs_or_succeeded_is_not_started_again() -> None:
    model = ScriptedModel({"Hi": say("Hello."), "Hang": wait(Hold())})
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    async with memory_runtime(model=model, place=place) as runtime:
        done = await runtime.chat("Hi")
        with pytest.raises(TaskOver, match="the task succeeded; fork it"):
            await runtime.retry(done.task_id)
        run = await runtime.start("Hang")
        with pytest.raises(TaskRunning, match="has not ended; wait for its end, or cancel it"):
            await runtime.retry(run.task_id)
        with pytest.raises(NotFound):
            await runtime.retry("task_none")


async def test_a_cancelled_task_starts_again_and_a_call_that_was_not_made_is_made() -> None:
    """The approval is asked again; the call before it keeps its outcome."""

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        BOUGHT.append("paid")
        return "paid"

    model = ScriptedModel([TEA, call("pay"), say("Paid.")])
    async with memory_runtime(model=model, tools=[buy, pay]) as runtime:
        waiting = await runtime.chat("Tea, please")
        await runtime.requests.cancel(waiting.task_id)
        cancelled = await runtime.attach(waiting.task_id).reply()
        assert cancelled.status == "cancelled"
        retry = await runtime.retry(waiting.task_id, resume=True)
        again = await runtime.attach(retry).reply()
        (question,) = again.questions
        await runtime.answer(question.id, "approve")
        paid = await runtime.attach(retry).reply()
        assert (paid.content, BOUGHT) == ("Paid.", ["tea", "paid"])


async def test_a_retry_removes_nothing_that_followed_in_the_conversation() -> None:
    model = ScriptedModel([HTTP_400, say("Yes."), say("Later.")])
    async with memory_runtime(model=model) as runtime:
        failed = await runtime.chat("Hi")
        await runtime.chat("There?", session=failed.session)
        with pytest.raises(SessionBusy, match="the conversation went on after this task"):
            await runtime.retry(failed.task_id)
        assert await texts(runtime, failed.session) == ["Hi", "There?", "Yes."]
        retry = await runtime.retry(failed.task_id, resume=True)
        assert await reply_of(runtime, retry) == ("succeeded", "Later.")


async def test_an_erased_start_cannot_be_repeated(tmp_path: Path) -> None:
    async with penstock.open(tmp_path, model=ScriptedModel([HTTP_400])) as runtime:
        failed = await runtime.chat("Hi")
        parts = runtime.parts.storage.database_parts
        assert parts is not None
        await parts.erasure.erase_messages(
            LogId(failed.session), TaskId(failed.task_id), user=True, answer=True
        )
        for resume in (False, True):
            with pytest.raises(TextErased):
                await runtime.retry(failed.task_id, resume=resume)


async def test_a_retry_has_no_permission_that_its_requester_lacks() -> None:
    """The message was sent with all permissions; the retry may do what both may."""
    limited = Profile(profile_id=ProfileId("local"), permissions=frozenset({CHAT}))
    model = ScriptedModel([HTTP_400, TEA, say("No.")])

    @tool(id="buy", requires_permissions=["shop"])
    def guarded(item: str) -> str:
        """Buy an item."""
        BOUGHT.append(item)
        return item

    async with memory_runtime(model=model, tools=[guarded]) as runtime:
        failed = await runtime.chat("Tea, please")
        record = await runtime.requests.retry(failed.task_id, profile=limited)
        await runtime.attach(record.task_id).reply()
        assert BOUGHT == []
        stranger = Profile(profile_id=ProfileId("other"), permissions=frozenset({CHAT}))
        with pytest.raises(NotFound):
            await runtime.requests.retry(failed.task_id, profile=stranger)


async def test_an_undo_is_not_retried() -> None:
    """What it did not take back is taken back by the next undo."""

    @tool
    def give_back(input: dict[str, str], output: str) -> str:
        """Fail."""
        raise ToolFailed("closed")

    @tool(id="take", revert=give_back, direct_call=True)
    def take(item: str) -> str:
        """Take."""
        return item

    async with memory_runtime(tools=[take, give_back]) as runtime:
        await runtime.call("take", {"item": "tea"}, task_id=TaskId("task_1"))
        undo = await runtime.undo("task_1")
        assert undo.undo_id
        with pytest.raises(InvalidRequest, match="is an undo; undo 'task_1' again"):
            await runtime.retry(undo.undo_id)


PATH = CallPath("task_1/1/buy#1")
INNER = CallPath(f"{PATH}/fetch#1")
STEP = CallPath("task_1/look/1")
FAILED = ErrorDetail(code="TOOL_FAILED", message="no")


def settled(code: str) -> CallSettled:
    detail = ErrorDetail(code=code, message="")
    return CallSettled(tool_id="buy", envelope=Envelope(Status.FAILED, error=detail))


def step(outcome: Outcome) -> StepSettled:
    return StepSettled(step_id="look", visit=1, outcome=outcome, result=StepResult())


@pytest.mark.parametrize(
    ("events", "again"),
    [
        ([(PATH, settled("TOOL_FAILED"))], {PATH}),
        ([(PATH, settled("OTHER"))], set()),
        ([(INNER, settled("X")), (PATH, settled("TOOL_FAILED"))], {PATH, INNER}),
        ([(PATH, settled(Cancelled.code))], {PATH}),
        ([(PATH, settled(ToolTimeout.code))], set()),
        (
            [
                (PATH, CallStarted(tool_id="buy", idempotency_key="k")),
                (PATH, settled(Interrupted.code)),
            ],
            set(),
        ),
        ([(STEP, StepStarted(step_id="look", visit=1)), (STEP, step(Outcome.HARD))], {STEP}),
        ([(STEP, step(Outcome.HARD)), (STEP, StepStarted(step_id="b", visit=1))], set()),
        ([(STEP, step(Outcome.SUCCESS))], set()),
        ([(PATH, settled("X")), (STEP, step(Outcome.SOFT))], {STEP}),
    ],
)
def test_what_ended_a_task_runs_again_and_nothing_else(
    events: list[tuple[CallPath, Event]], again: set[CallPath]
) -> None:
    """A call that failed with the code of its task; a write that may have happened never."""
    ended = TaskEnded(status=TaskStatus.FAILED, error=FAILED)
    begun = (None, TaskStarted())
    records = [
        Record(LogId("task_1"), number, Moment(0), TaskId("task_1"), path, event)
        for number, (path, event) in enumerate([begun, *events, (None, ended)], 1)
    ]
    assert before_failure(records) == (len(records) - 1, frozenset(again))


def test_the_id_of_a_retry_says_what_it_repeats() -> None:
    task = TaskId("task_1")
    assert [retry_id(task, number) for number in (1, 2)] == ["retry_task_1", "retry_task_1.2"]
    assert [retried(retry_id(task, number)) for number in (1, 2)] == [task, task]
    for other in ("task_1", "undo_task_1", "retry", "retry_", "", "retryable_task_1"):
        assert retried(TaskId(other)) is None
