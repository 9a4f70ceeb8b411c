"""A chat that runs a flow which asks a person: it parks, and resumes by itself."""

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage, SentMessage
from penstock.core.errors import QuestionOpen
from penstock.core.events.events import CallSettled, TaskResumed, TaskSuspended
from penstock.core.events.flow_events import RunEnded
from penstock.core.ids import LogId
from penstock.core.task import TaskStatus
from penstock.models.scripted import Hold, wait
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from tests.kit.flows import finish
from tests.kit.logs import code, events, settled
from tests.kit.waiting_chat import (
    LIMITS,
    RUNTIME,
    kinds,
    model,
    open_one,
    parked,
    place,
    runs,
    status,
    tight,
)

YES = {"value": "Yes"}


async def outcome(runtime: Runtime, sent: SentMessage) -> CallSettled:
    (result,) = await settled(runtime, sent.session_id)
    return result


async def until_free(runtime: Runtime, log_id: str) -> None:
    """Wait until no process holds a log and no work is left in it."""
    log = runtime.parts.storage.log
    while (lease := await log.acquire(LogId(log_id), "a test")) is None:
        await runtime.parts.world.clock.sleep(0.001)
    await log.release(lease, head=lease.head)
    assert LogId(log_id) not in [each.log_id for each in await log.pending(limit=9)]


async def test_a_parked_chat_releases_its_log_and_resumes_by_itself() -> None:
    """14.6: "Runs the flow as a child task and waits (parked)"."""
    async with memory_runtime(model=model(), place=place(), **RUNTIME) as runtime:
        sent, reply = await parked(runtime)
        (run_id,) = await runs(runtime)
        assert (reply.runs, [each.task_id for each in reply.questions]) == ((run_id,), [run_id])
        await until_free(runtime, sent.session_id)
        await runtime.requests.answer(reply.questions[0].question.question_id, YES)
        done = await runtime.requests.wait(sent.task_id)
        assert done
        assert (done.content, done.runs) == ("All done.", ())
        result = await outcome(runtime, sent)
        happened = await events(runtime, sent.session_id)
    assert result.envelope.output["runId"] == run_id
    assert [each for each in happened if isinstance(each, TaskSuspended | RunEnded)] == [
        next(each for each in happened if isinstance(each, TaskSuspended)),
        RunEnded(run_id=run_id, status=TaskStatus.SUCCEEDED),
    ]
    assert sum(isinstance(each, TaskResumed) for each in happened) == 1


async def test_a_chat_waits_for_a_run_without_questions() -> None:
    async with memory_runtime(model=model(), place=place(), **RUNTIME) as runtime:
        reply = await runtime.chat("plain")
        assert reply.content == "All done."
        assert "TaskSuspended" not in await kinds(runtime, LogId(reply.session))


async def test_a_second_question_of_the_run_leaves_the_chat_parked() -> None:
    async with memory_runtime(model=model(), place=place(), **RUNTIME) as runtime:
        sent, reply = await parked(runtime, "twice")
        await runtime.requests.answer(reply.questions[0].question.question_id, YES)
        asked = await open_one(runtime, sent.task_id)
        assert (asked.question.text, await status(runtime, sent.task_id)) == (
            "Really?",
            TaskStatus.SUSPENDED,
        )
        await runtime.requests.answer(asked.question.question_id, YES)
        done = await runtime.requests.wait(sent.task_id)
        happened = await kinds(runtime, LogId(sent.session_id))
    assert done
    assert done.content == "All done."
    assert happened.count("TaskSuspended") == 1


async def test_another_process_continues_where_the_first_one_stopped() -> None:
    here = place()
    async with memory_runtime(model=model(), place=here, **RUNTIME) as runtime:
        sent, reply = await parked(runtime)
    async with memory_runtime(model=model(), place=here, **RUNTIME) as runtime:
        await runtime.requests.answer(reply.questions[0].question.question_id, YES)
        done = await runtime.requests.wait(sent.task_id)
        assert len(await runs(runtime)) == 1
    assert done
    assert done.content == "All done."


async def test_a_call_finds_its_run_again_after_days() -> None:
    """An Idempotency-Key is forgotten after a day; people may take longer."""
    clock = FakeClock()
    async with memory_runtime(model=model(), place=place(clock=clock), **RUNTIME) as runtime:
        sent, reply = await parked(runtime)
        clock.advance(3 * LIMITS.idempotency_seconds)
        await runtime.requests.answer(reply.questions[0].question.question_id, YES)
        done = await runtime.requests.wait(sent.task_id)
        result = await outcome(runtime, sent)
        assert len(await runs(runtime)) == 1
    assert done
    assert (done.content, code(result)) == ("All done.", "ok")


async def test_cancelling_the_parked_chat_cancels_the_run() -> None:
    """14.6: "Cancelling the chat task cancels the run"."""
    async with memory_runtime(model=model(), place=place(), **RUNTIME) as runtime:
        sent, _ = await parked(runtime, "outer")
        await runtime.requests.cancel(sent.task_id)
        ended = [await runtime.requests.wait(each) for each in (sent.task_id, *await runs(runtime))]
    assert [each and each.status for each in ended] == 3 * [TaskStatus.CANCELLED]


async def test_cancelling_the_run_resumes_the_chat() -> None:
    async with memory_runtime(model=model(), place=place(), **RUNTIME) as runtime:
        sent, reply = await parked(runtime)
        await runtime.requests.cancel(reply.runs[0])
        done = await runtime.requests.wait(sent.task_id)
        result = await outcome(runtime, sent)
    assert done
    assert (done.content, result.envelope.output["status"]) == ("All done.", "cancelled")


async def test_runs_that_wait_for_runs_park_one_after_the_other() -> None:
    async with memory_runtime(model=model(), place=place(), **RUNTIME) as runtime:
        sent, reply = await parked(runtime, "outer")
        outer, inner = await runs(runtime)
        assert reply.runs == (outer,)
        assert [each.task_id for each in reply.questions] == [inner]
        for each in (sent.session_id, outer, inner):
            await until_free(runtime, each)
        await runtime.requests.answer(reply.questions[0].question.question_id, YES)
        done = await runtime.requests.wait(sent.task_id)
        assert RunEnded(run_id=inner, status=TaskStatus.SUCCEEDED) in await events(runtime, outer)
    assert done
    assert done.content == "All done."


@pytest.mark.parametrize("workflow", ["asks", "outer"])
async def test_a_message_is_refused_while_the_run_asks_a_person(workflow: str) -> None:
    """9: "409 `QUESTION_OPEN` with the ids; with `cancelOpen` the waiting task is cancelled"."""
    async with memory_runtime(model=model(), place=place(), **RUNTIME) as runtime:
        sent, reply = await parked(runtime, workflow)
        with pytest.raises(QuestionOpen) as refused:
            await runtime.chat("And now?", session=sent.session_id)
        ids = [each.question.question_id for each in reply.questions]
        assert refused.value.details == {"questions": ids}
        assert (await runtime.chat("/call", session=sent.session_id)).content
        new = NewMessage(content="plain", session_id=sent.session_id, cancel_open=True)
        after = await runtime.requests.wait((await runtime.requests.send(new)).task_id)
        assert await status(runtime, sent.task_id) is TaskStatus.CANCELLED
        ended = [await runtime.requests.wait(each) for each in await runs(runtime)]
    assert after
    assert after.status is TaskStatus.SUCCEEDED
    assert all(each and each.status.is_final for each in ended)


async def test_a_message_is_queued_while_the_run_works() -> None:
    hold = Hold()
    result = model(wait(hold) + finish())
    async with memory_runtime(model=result, place=place(), **RUNTIME) as runtime:
        sent, reply = await parked(runtime)
        await runtime.requests.answer(reply.questions[0].question.question_id, YES)
        await hold.reached()
        second = await runtime.requests.send(
            NewMessage(content="plain", session_id=sent.session_id)
        )
        hold.release()
        replies = [await runtime.requests.wait(each.task_id) for each in (sent, second)]
    assert [each and each.status for each in replies] == 2 * [TaskStatus.SUCCEEDED]


async def test_a_flow_command_parks_like_a_call_of_a_model() -> None:
    """19: `/dom:apply TEXT` starts the flow, shown as a call of `execute_workflow`."""
    async with memory_runtime(model=model(), place=place(), **RUNTIME) as runtime:
        sent, reply = await parked(runtime, "/asks me")
        assert len(reply.runs) == 1
        await runtime.requests.answer(reply.questions[0].question.question_id, YES)
        done = await runtime.requests.wait(sent.task_id)
    assert done
    assert done.content == "done"


async def test_three_nested_runs_need_one_slot() -> None:
    """A run that waits for another has lent its slot to that one."""
    here = place(limits=tight(workflow_max_concurrent=1, flow_runs=1))
    async with memory_runtime(model=model(), place=here, **RUNTIME) as runtime:
        reply = await runtime.chat("deep")
        result = await runs(runtime)
    assert (reply.content, len(result)) == ("All done.", 3)


async def test_runs_over_the_limit_are_queued() -> None:
    """14.6: "Over `workflow_max_concurrent` the run queues"."""
    here = place(limits=tight(workflow_max_concurrent=1))
    async with memory_runtime(model=model(), place=here, **RUNTIME) as runtime:
        sent = [await runtime.requests.send(NewMessage(content="plain")) for _ in range(4)]
        done = [await runtime.requests.wait(each.task_id) for each in sent]
    assert [each and each.content for each in done] == 4 * ["All done."]


@pytest.mark.parametrize("workflow", ["asks", "outer"])
async def test_a_run_that_waits_for_people_holds_no_slot(workflow: str) -> None:
    here = place(limits=tight(workflow_max_concurrent=1, flow_runs=1))
    async with memory_runtime(model=model(), place=here, **RUNTIME) as runtime:
        sent, reply = await parked(runtime, workflow)
        assert (await runtime.chat("plain")).content == "All done."
        await runtime.requests.answer(reply.questions[0].question.question_id, YES)
        done = await runtime.requests.wait(sent.task_id)
    assert done
    assert done.content == "All done."


async def test_a_queued_run_that_is_cancelled_ends_at_once() -> None:
    hold = Hold()
    result = model(wait(hold) + finish())
    here = place(limits=tight(workflow_max_concurrent=1))
    async with memory_runtime(model=result, place=here, **RUNTIME) as runtime:
        first = await runtime.requests.send(NewMessage(content="plain"))
        await hold.reached()
        second = await runtime.requests.send(NewMessage(content="plain"))
        while len(tasks := await runs(runtime)) == 1:
            await runtime.parts.world.clock.sleep(0.001)
        queued = tasks[-1]
        assert await status(runtime, queued) is TaskStatus.QUEUED
        await runtime.requests.cancel(queued)
        ended = [await runtime.requests.wait(each) for each in (queued, second.task_id)]
        assert await status(runtime, first.task_id) is TaskStatus.RUNNING
        hold.release()
        done = await runtime.requests.wait(first.task_id)
    assert [each and each.status for each in ended] == [TaskStatus.CANCELLED, TaskStatus.SUCCEEDED]
    assert done
    assert done.content == "All done."
