"""The tool that runs a flow as a run of its own."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.builtins.workflow import TOOLS, with_seconds
from penstock.chat.requests import NewMessage
from penstock.core.envelope import Envelope, Status
from penstock.core.errors import NotFound
from penstock.core.events.events import CallSettled
from penstock.core.ids import LogId, QuestionId, SessionId, TaskId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.core.task import TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import Hold, ScriptedModel, ScriptedReply, call, say, wait
from penstock.store.projections import Page
from penstock.testing.invocation import open_workbench
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.resources import Callbacks, FlowRequest, Runs
from tests.kit.flows import WORKERS, by_task, faulty, finish, flows_of, steps, worker

ONE = steps('  - {id: one, agent: scout, task: "${{task}} ${{flow.input.n}}"}')
INPUTS = "inputs: {n: {type: string, required: true}}\n"
ASKS = steps(
    '  - {id: pick, question: "Sure?", branches: {Yes: one, No: one}}\n  - {id: one, agent: scout}'
)
LIMITS = Limits(poll_seconds=0.01, shutdown_seconds=0.05)


def place() -> MemoryStorage:
    nested = steps("  - {id: one, agent: runner, task: nest}")
    flows = flows_of(demo=INPUTS + ONE, dom_asks=ASKS, nested=nested, broken="steps: 1")
    return MemoryStorage(flows=flows, limits=LIMITS)


def model_of(answers: dict[str, Any], *chat: ScriptedReply) -> ScriptedModel:
    left, agents = list(chat), by_task(answers)

    def answer(request: ModelRequest) -> ScriptedReply:
        is_session = any(tool.name == "finish" for tool in request.tools)
        return agents(request) if is_session else left.pop(0)

    return ScriptedModel(answer)


def wanted(workflow: str, **input: Any) -> ScriptedReply:
    return call("execute_workflow", workflowId=workflow, input=input)


async def outcome(runtime: Runtime, session_id: SessionId) -> Envelope:
    records = await runtime.parts.storage.log.read(LogId(session_id))
    return next(each.event.envelope for each in records if isinstance(each.event, CallSettled))


async def ran(
    reply: ScriptedReply,
    answers: dict[str, Any] | None = None,
    *,
    agents: Sequence[Agent] = WORKERS,
) -> Envelope:
    model = model_of(answers or {}, reply, say("Done."))
    async with memory_runtime(model=model, tools=TOOLS, agents=agents, place=place()) as runtime:
        said = await runtime.chat("Go")
        return await outcome(runtime, SessionId(said.session))


async def test_the_output_is_the_result_of_the_run() -> None:
    """19: "`input.task` and the rest of `input` as inputs; its `output` is the FlowResult"."""
    envelope = await ran(wanted("demo", task="look", n="twice"))
    assert envelope.ok, envelope
    assert (envelope.output["workflowId"], envelope.output["status"]) == ("demo", "success")
    result = envelope.output["output"]
    assert (result["runId"], result["status"]) == (envelope.output["runId"], "success")
    assert result["results"]["one"]["summary"] == "look twice done"
    assert TOOLS[0].preview(envelope.output) == "demo: success"


@pytest.mark.parametrize(
    ("reply", "code", "message"),
    [
        (wanted("demu", n="x"), "NOT_FOUND", "Did you mean 'demo'?"),
        (wanted("demo"), "INVALID_INPUT", "/inputs/n: is required"),
        (wanted("demo", n=1), "INVALID_INPUT", "/inputs/n: must be string"),
        (wanted("demo", n="x", m="y"), "INVALID_INPUT", "is not an input of this flow"),
        (wanted("demo", n="x", task=1), "INVALID_INPUT", "/input/task: must be a text"),
        (wanted("broken"), "WORKFLOW_FAILED", "has errors"),
        (call("execute_workflow"), "INVALID_INPUT", "workflowId"),
    ],
)
async def test_a_run_that_cannot_start_is_reported(
    reply: ScriptedReply, code: str, message: str
) -> None:
    envelope = await ran(reply)
    assert envelope.error is not None
    assert envelope.error.code == code
    assert message in envelope.error.message


async def test_a_run_that_fails_names_its_step() -> None:
    """14.6: `WORKFLOW_FAILED` (`details {runId, step, message}`)."""
    envelope = await ran(wanted("demo", task="t", n="x"), {"t x": finish("no way", status="error")})
    assert envelope.error is not None
    assert envelope.error.code == "WORKFLOW_FAILED"
    details = envelope.error.details or {}
    assert (details["step"], details["message"]) == ("one", "no way")
    assert details["runId"].startswith("task_")


async def runs_of(runtime: Runtime) -> list[TaskId]:
    """Return the runs of flows that were started."""
    tasks, _ = await runtime.parts.storage.projections.tasks(page=Page(limit=100))
    return [each.task_id for each in tasks if each.kind == "flow"]


async def open_question(runtime: Runtime) -> tuple[TaskId, QuestionId]:
    """Wait until the run that asks has asked."""
    while True:
        for run_id in await runs_of(runtime):
            for asked in await runtime.parts.storage.projections.open_questions(LogId(run_id)):
                return run_id, asked.question.question_id
        await runtime.parts.world.clock.sleep(0.005)


@pytest.mark.parametrize(
    ("answer", "status"), [({"value": "Yes"}, "success"), ({"cancel": True}, "cancelled")]
)
async def test_the_call_waits_while_the_run_waits_for_a_person(
    answer: dict[str, Any], status: str
) -> None:
    """19: "its status says `cancelled` for `aborted`"."""
    model = model_of({}, wanted("/dom:asks"), say("Done."))
    async with memory_runtime(model=model, tools=TOOLS, agents=WORKERS, place=place()) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        run_id, question_id = await open_question(runtime)
        await runtime.requests.answer(question_id, answer)
        reply = await runtime.requests.wait(sent.task_id)
        envelope = await outcome(runtime, sent.session_id)
    assert reply is not None
    assert reply.content == "Done."
    assert (envelope.output["runId"], envelope.output["status"]) == (run_id, status)


async def test_cancelling_the_chat_cancels_the_run() -> None:
    """14.6: "Cancelling the chat task cancels the run"."""
    model = model_of({}, wanted("dom:asks"))
    async with memory_runtime(model=model, tools=TOOLS, agents=WORKERS, place=place()) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        run_id, _ = await open_question(runtime)
        await runtime.requests.cancel(sent.task_id)
        chat, run = await runtime.requests.wait(sent.task_id), await runtime.requests.wait(run_id)
    assert chat is not None
    assert run is not None
    assert (chat.status, run.status) == (TaskStatus.CANCELLED, TaskStatus.CANCELLED)


async def test_after_a_crash_the_call_finds_its_run_again() -> None:
    """14.6: "safe to run again: the run's id comes from the call"."""
    here = place()
    model = model_of({}, wanted("dom:asks"), say("Done."))
    async with memory_runtime(model=model, tools=TOOLS, agents=WORKERS, place=here) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        run_id, question_id = await open_question(runtime)
    async with memory_runtime(model=model, tools=TOOLS, agents=WORKERS, place=here) as runtime:
        await runtime.requests.answer(question_id, {"value": "Yes"})
        reply = await runtime.requests.wait(sent.task_id)
        envelope = await outcome(runtime, sent.session_id)
        runs = await runs_of(runtime)
    assert reply is not None
    assert reply.content == "Done."
    assert runs == [run_id] == [envelope.output["runId"]]


async def test_runs_that_start_each_other_end_somewhere() -> None:
    """14.6: `DEPTH_EXCEEDED`."""
    runner = worker("runner", tools=("execute_workflow",))
    left = [wanted("nested")] * LIMITS.run_depth + [finish("end")] * LIMITS.run_depth
    model = model_of({"nest": lambda _: left.pop(0)}, wanted("nested"), say("Done."))
    async with memory_runtime(model=model, tools=TOOLS, agents=[runner], place=place()) as runtime:
        await runtime.chat("Go")
        runs = await runs_of(runtime)
        found = [await outcome(runtime, SessionId(run_id)) for run_id in runs]
    codes = [each.error.code for each in found if each.error is not None]
    assert (len(runs), codes) == (LIMITS.run_depth, ["DEPTH_EXCEEDED"])


async def test_without_flows_the_call_is_not_configured() -> None:
    bench = await open_workbench(*TOOLS)
    envelope = await bench.call("execute_workflow", {"workflowId": "x"})
    assert envelope.status is Status.FAILED
    assert envelope.error is not None
    assert envelope.error.code == "NOT_CONFIGURED"


@pytest.mark.parametrize("inner", ["dom:asks", "slow"])
async def test_a_run_that_ends_otherwise_ends_the_runs_that_its_steps_wait_for(inner: str) -> None:
    """A step that is cut wants nothing any more, whether its run asks or works."""
    both = steps("  - {id: in, agent: runner, task: in}\n  - {id: no, agent: scout, task: no}")
    here, hold, ever = place(), Hold(), Hold()
    slow = steps("  - {id: one, agent: scout, task: slow}")
    here.flows = flows_of(demo=both, dom_asks=ASKS, slow=slow)
    answers = {"in": wanted(inner), "slow": wait(ever) + finish()}
    answers["no"] = wait(hold) + finish("no", status="error")
    model = model_of(answers, wanted("demo"), say("Done."))
    agents = [*WORKERS, worker("runner", tools=("execute_workflow",))]
    async with memory_runtime(model=model, tools=TOOLS, agents=agents, place=here) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await (ever.reached() if inner == "slow" else open_question(runtime))
        hold.release()
        await runtime.requests.wait(sent.task_id)
        ended = [await runtime.requests.wait(each) for each in await runs_of(runtime)]
    assert sorted(each.status for each in ended if each) == ["cancelled", "failed"]


@pytest.mark.parametrize("inner", ["dom:asks", "slow"])
async def test_a_process_that_stops_ends_no_run(inner: str) -> None:
    here, ever = place(), Hold()
    outer = steps("  - {id: in, agent: runner, task: in}")
    slow = steps("  - {id: one, agent: scout, task: slow}")
    here.flows = flows_of(demo=outer, dom_asks=ASKS, slow=slow)
    model = model_of({"in": wanted(inner), "slow": wait(ever) + finish()}, wanted("demo"))
    agents = [*WORKERS, worker("runner", tools=("execute_workflow",))]
    async with memory_runtime(model=model, tools=TOOLS, agents=agents, place=here) as runtime:
        await runtime.requests.send(NewMessage(content="Go"))
        await (ever.reached() if inner == "slow" else open_question(runtime))
    tasks, _ = await here.log.tasks(page=Page(limit=9))
    assert len(tasks) == 3
    assert not any(each.status.is_final for each in tasks)


async def test_the_time_of_the_call_counts_while_the_run_works() -> None:
    """14.6: `TIMEOUT`; the run is cancelled then."""
    here, ever = place(), Hold()
    here.flows = flows_of(slow=steps("  - {id: one, agent: scout, task: slow}"))
    model = model_of({"slow": wait(ever) + finish()}, wanted("slow"), say("Done."))
    tools = with_seconds(TOOLS, 0.05)
    async with memory_runtime(model=model, tools=tools, agents=WORKERS, place=here) as runtime:
        reply = await runtime.chat("Go")
        envelope = await outcome(runtime, SessionId(reply.session))
        (run_id,) = await runs_of(runtime)
        ended = await runtime.requests.wait(run_id)
    assert (envelope.status, reply.content) == (Status.TIMEOUT, "Done.")
    assert ended
    assert ended.status is TaskStatus.CANCELLED


async def test_the_timeout_stops_while_the_run_waits_for_people() -> None:
    here = place()
    model = model_of({}, wanted("dom:asks"), say("Done."))
    tools = with_seconds(TOOLS, 0.2)
    async with memory_runtime(model=model, tools=tools, agents=WORKERS, place=here) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        _, question_id = await open_question(runtime)
        await runtime.requests.wait(sent.task_id)
        await runtime.parts.world.clock.sleep(0.3)
        await runtime.requests.answer(question_id, {"value": "Yes"})
        await runtime.requests.wait(sent.task_id)
        envelope = await outcome(runtime, sent.session_id)
    assert envelope.ok


def test_how_long_a_workflow_may_take_is_a_setting() -> None:
    (tool,) = with_seconds(TOOLS, 9.5)
    assert (tool.spec.timeout_ms, TOOLS[0].spec.timeout_ms) == (9_500, 300_000)


async def test_a_run_receives_no_secret_of_the_task() -> None:
    """What it begins with is recorded in its own log, and models read it."""
    told: list[Any] = []

    async def start(request: FlowRequest) -> TaskId:
        told.append((request.task, request.inputs))
        raise NotFound("gone")

    async def wait(run_id: TaskId, waiter: TaskId) -> Envelope | None:
        return None

    async def abort(run_id: TaskId, profile: Profile) -> None:
        pass

    bench = await open_workbench(
        *TOOLS, callbacks=Callbacks(runs=Runs(start=start, wait=wait, abort=abort))
    )
    (await bench.resources.secrets.load(bench.ledger, None)).redactor.add("token", "s3cr3t-value")
    given = {"task": "use s3cr3t-value", "n": "s3cr3t-value"}
    await bench.call("execute_workflow", {"workflowId": "x", "input": given})
    assert told == [("use [secret:token]", {"n": "[secret:token]"})]


async def test_a_fault_of_the_runtime_in_a_run_is_a_failure_and_no_cancellation() -> None:
    agents = [faulty(each.name) for each in WORKERS]
    envelope = await ran(wanted("demo", task="t", n="x"), agents=agents)
    assert envelope.error is not None
    assert envelope.error.code == "WORKFLOW_FAILED"
    assert "the runtime failed" in envelope.error.message
