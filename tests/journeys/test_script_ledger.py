"""The rules of the ledger for scripts: the same results in each entry, and the errors otherwise."""

import asyncio
from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.events.events import QuestionAnswered, TaskEnded
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.task import QuestionStatus
from penstock.testing.clock import FakeClock, settle
from penstock.testing.runtime import MemoryStorage
from tests.kit.dying_log import DyingLog
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act, echo

GO_ON = 'await flo.task.waitForUserMessage({ user_message: "Go on?" });'


async def entered_twice(stage: Stage, input: Any = None) -> Any:
    """Call `ask`, answer its question, and return its output."""
    await stage.call("ask", input)
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope, reply
    return reply.envelope.output


async def test_l4_the_same_call_wins_a_race_in_each_entry(project: ProjectFolder) -> None:
    """L4: "`Promise.race` has the same winner in each entry"."""
    order: list[str] = []

    async def late(input: Any, invocation: Any) -> str:
        for _ in range(input["turns"]):
            await invocation.edition.world.clock.sleep(0)
        order.append(input["name"])
        return str(input["name"])

    script = f"""
        const call = (name: string, turns: number) =>
          flo.callTool({{ tool_id: "late", input: {{ name, turns }} }});
        export async function run() {{
          const won = [call("a", 9), call("b", 3), call("c", 6)];
          const first = (await Promise.race(won)).output;
          const all: any[] = [];
          await Promise.all(won.map((each) => each.then((r) => all.push(r.output))));
          {GO_ON}
          return [first, all];
        }}
    """
    project.tool("ask", script)
    result = await entered_twice(Stage(project, Act("late", late, direct_call=True)))
    assert result == ["b", ["b", "c", "a"]]
    assert order == ["b", "c", "a"]


async def test_l5_time_and_randomness_repeat(project: ProjectFolder) -> None:
    """L5: "stand still between host calls and repeat their values"."""
    script = f"""
        export async function run() {{
          const seen = [Date.now(), Math.random(), crypto.randomUUID()];
          console.log(JSON.stringify(seen));
          const still = Date.now() === seen[0];
          await flo.task.emitEvent({{ event_type: "seen", payload: seen }});
          {GO_ON}
          return [still, seen];
        }}
    """
    project.tool("ask", script)
    stage = Stage(project)
    still, seen = await entered_twice(stage)
    assert still
    (result,) = await stage.notes("seen")
    assert result.payload == seen


async def test_l6_all_possible_questions_are_open_at_once(project: ProjectFolder) -> None:
    """L6: "driven on while a host call is in flight, a timer is set or a result is undelivered"."""
    script = """
        const wait = (user_message: string) => flo.task.waitForUserMessage({ user_message });
        export const run = async () => Promise.all([
          wait("one"),
          flo.sleep(0).then(() => wait("two")),
          new Promise((r) => setTimeout(r, 0)).then(() => wait("three")),
          flo.callTool({ tool_id: "look", input: {} }).then(() => wait("four")),
        ]);
    """
    project.tool("ask", script)
    stage = Stage(project, Act("look", direct_call=True))
    await stage.call("ask")
    assert len(await stage.questions()) == 4


async def test_l8_waiting_time_is_not_counted(project: ProjectFolder) -> None:
    """L8: "`timeout_ms` counts the active time of all entries of one attempt"."""
    project.tool(
        "ask", f"export const run = async () => {{ {GO_ON} return 1; }};", timeout_ms="5000"
    )
    stage = Stage(project)
    await stage.call("ask")
    clock = stage.place.clock
    assert isinstance(clock, FakeClock)
    clock.advance(3600)
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope
    assert reply.envelope.output == 1


async def test_l9_a_later_attempt_reuses_writes_and_answers(project: ProjectFolder) -> None:
    """L9: "recorded successes of effect `write` … and answers of people are reused"."""
    script = f"""
        const call = (tool_id: string) => flo.callTool({{ tool_id, input: {{}} }});
        export async function run() {{
          await call("look");
          await call("post");
          await call("send");
          {GO_ON}
          const {{ call: {{ attempt }} }} = await flo.task.getContext<any>();
          if (attempt < 3) throw new flo.ToolError({{ code: "NO", message: "", retryable: true }});
          return attempt;
        }}
    """
    spec: dict[str, Any] = {"effect": Effect.WRITE, "direct_call": True}
    look, post = Act("look", direct_call=True), Act("post", **spec)
    send = Act("send", requires_approval=True, **spec)
    project.tool("ask", script, retry_policy="{max_attempts: 3, initial_backoff_ms: 0}")
    stage = Stage(project, look, post, send)
    await stage.call("ask")
    await stage.answer({"decision": "approve"})
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope
    assert reply.envelope.output == 3
    assert (len(look.runs), len(post.runs), len(send.runs)) == (3, 1, 1)


async def test_l9_a_retried_call_does_not_ask_for_its_approval_again(
    project: ProjectFolder,
) -> None:
    async def fails_once(input: Any, invocation: Any) -> str:
        if len(send.runs) == 1:
            raise ValueError("not yet")
        return "sent"

    send = Act("send", fails_once, effect=Effect.WRITE, direct_call=True, requires_approval=True)
    script = """
        export async function run() {
          const r = await flo.callTool({ tool_id: "send", input: {} });
          if (r.error) throw new flo.ToolError({ code: "NO", message: "", retryable: true });
          return r.output;
        }
    """
    project.tool("ask", script, retry_policy="{max_attempts: 2, initial_backoff_ms: 0}")
    stage = Stage(project, send)
    await stage.call("ask")
    reply = await stage.answer({"decision": "approve"})
    assert reply.envelope, reply.questions
    assert reply.envelope.output == "sent"


async def test_l11_another_path_is_allowed_and_reported(project: ProjectFolder) -> None:
    """L11: "one warning event that names them"."""
    script = f"""
        export async function run() {{
          const {{ call }} = await flo.task.getContext<any>();
          await flo.callTool({{ tool_id: call.entry === 1 ? "look" : "post", input: {{}} }});
          {GO_ON}
          return call.entry;
        }}
    """
    project.tool("ask", script)
    stage = Stage(project, Act("look", direct_call=True), Act("post", direct_call=True))
    assert await entered_twice(stage) == 2
    (result,) = await stage.notes("script.diverged")
    assert (result.level, result.message) == (
        "warning",
        "recorded in an earlier entry, but not requested again: look",
    )


async def test_l11_the_calls_of_a_settled_step_are_no_divergence(project: ProjectFolder) -> None:
    script = f"""
        export async function run() {{
          const made = await flo.task.step({{ key: "k", version: 1, input: null }},
            async () => (await flo.callTool({{ tool_id: "look", input: {{}} }})).status);
          {GO_ON}
          return made;
        }}
    """
    project.tool("ask", script)
    stage = Stage(project, look := Act("look", direct_call=True))
    assert await entered_twice(stage) == "success"
    assert await stage.notes("script.diverged") == []
    assert len(look.runs) == 1


async def test_l12_a_changed_script_continues_as_the_new_one(project: ProjectFolder) -> None:
    """L12: "the new code is entered, with a warning event `script.changed`"."""
    script = "export const run = async () => {{ const done = {}; {} return done; }};"
    project.tool("ask", script.format('"old"', GO_ON))
    before = Stage(project)
    await before.call("ask")
    project.tool("ask", script.format('"new"', GO_ON))
    after = Stage(project, place=before.place)
    after.task_id = before.task_id
    reply = await after.answer({"text": "yes"})
    assert reply.envelope
    assert reply.envelope.output == "new"
    assert [each.level for each in await after.notes("script.changed")] == ["warning"]


async def test_l13_no_line_appears_twice(project: ProjectFolder) -> None:
    """L13, with a call that waits beside others."""
    script = f"""
        export async function run() {{
          console.log("one");
          const waits = flo.callTool({{ tool_id: "send", input: {{}} }});
          await flo.callTool({{ tool_id: "look", input: {{}} }});
          console.warn("two");
          await waits;
          console.log("three");
          {GO_ON}
          console.log("four");
        }}
    """
    send = Act("send", direct_call=True, requires_approval=True)
    project.tool("ask", script)
    stage = Stage(project, send, Act("look", direct_call=True))
    await stage.call("ask")
    await stage.answer({"decision": "approve"})
    await stage.answer({"text": "yes"})
    assert await stage.printed() == ["one", "two", "three", "four"]


async def test_l14_an_approval_belongs_to_its_call(project: ProjectFolder) -> None:
    """L14: "a replay never asks again"."""
    script = f"""
        export async function run() {{
          const r = await flo.callTool({{ tool_id: "send", input: {{}} }});
          {GO_ON}
          return r.status;
        }}
    """
    send = Act("send", effect=Effect.WRITE, direct_call=True, requires_approval=True)
    project.tool("ask", script)
    stage = Stage(project, send)
    await stage.call("ask")
    await stage.answer({"decision": "approve"})
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope
    assert (reply.envelope.output, len(send.runs)) == ("success", 1)


async def test_a_question_without_a_waiting_call_is_withdrawn(project: ProjectFolder) -> None:
    script = """
        export async function run() {
          flo.callTool({ tool_id: "send", input: {} });
          flo.task.waitForUserMessage({ user_message: "Really?" });
          return "done";
        }
    """
    send = Act("send", direct_call=True, requires_approval=True)
    project.tool("ask", script)
    stage = Stage(project, send)
    assert await stage.output("ask") == "done"
    assert await stage.questions() == []
    closed = [each for each in await stage.events() if isinstance(each, QuestionAnswered)]
    assert [each.status for each in closed] == [QuestionStatus.CANCELLED] * 2
    (warned,) = await stage.notes("script.unawaited_calls")
    assert "callTool, task.waitForUserMessage" in (warned.message or "")


@pytest.mark.parametrize("is_command", [False, True])
async def test_the_end_of_a_task_withdraws_the_open_questions_of_its_calls(
    project: ProjectFolder, *, is_command: bool
) -> None:
    """E5: "A task that ends withdraws such questions (event `question_withdrawn`)"."""
    script = """
        export async function run() {
          const r = await flo.callTool({ tool_id: "send", input: {}, wait: false });
          return r.status;
        }
    """
    project.tool("ask", script)
    stage = Stage(project, Act("send", direct_call=True, requires_approval=True))
    async with stage.opened() as runtime:
        if is_command:
            reply = await runtime.chat("/call ask")
            log_id = LogId(reply.session)
        else:
            envelope = await runtime.call("ask", {}, task_id=stage.task_id)
            assert envelope.output == "suspended"
            log_id = LogId(stage.task_id)
        events = [each.event for each in await runtime.parts.storage.log.read(log_id)]
    *_, answered, ended = events
    assert isinstance(answered, QuestionAnswered)
    assert answered.status is QuestionStatus.CANCELLED
    assert isinstance(ended, TaskEnded)


@pytest.mark.chaos
# Writes to the log: 1 the request, 2 the task's start, 3 the clock with the change, 4 the end.
@pytest.mark.parametrize(("write", "before"), [(3, True), (3, False), (4, True), (4, False)])
async def test_t11_a_change_happens_once_after_a_crash_at_any_point(
    project: ProjectFolder, write: int, *, before: bool
) -> None:
    """The result is recorded "in the same transaction as the write: exactly once"."""
    script = """
        const mine = { scope_kind: "shared", key: "n.list" } as const;
        export async function run() {
          await flo.state.append({ ...mine, item: 1 });
          return (await flo.state.get<number[]>(mine))?.value;
        }
    """
    project.tool(
        "ask", script, state="[{name: n, key_prefix: n., scope_kind: shared, scope_id: t}]"
    )
    clock = FakeClock()
    log = DyingLog(clock, writes=write, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    stage = Stage(project, place=place)
    assert (await stage.survive("ask", {})).output == [1]


async def test_a_wait_for_a_message_times_out(project: ProjectFolder) -> None:
    """§12: "`timeout` is a durable timer"; the context has "`{kind, …payload}`"."""
    script = """
        export const run = async () => [
          await flo.task.waitForUserMessage({ user_message: "Month?", resume_payload: { n: 1 },
            timeout: { seconds: 60, resume_prompt: "Take the last one." } }),
          (await flo.task.getContext<any>()).resume_payload,
        ];
    """
    project.tool("ask", script)
    stage = Stage(project)
    await stage.call("ask")
    clock = stage.place.clock
    assert isinstance(clock, FakeClock)
    async with stage.opened() as runtime:
        waiting = asyncio.ensure_future(runtime.requests.wait(stage.task_id))
        await clock.elapse(65)
        while (
            not (reply := await runtime.requests.wait(stage.task_id, seconds=0))
            or not reply.envelope
        ):
            await settle()
        waiting.cancel()
    assert reply.envelope.output == [
        {
            "resume_reason": "timeout",
            "resume_prompt": "Take the last one.",
            "resume_payload": {"n": 1},
        },
        {"kind": "timeout", "n": 1},
    ]


async def test_equal_inputs_in_another_spelling_are_the_same_call(project: ProjectFolder) -> None:
    """L1: canonical input: "sorted keys, no spaces, numbers normalised"."""
    script = f"""
        const call = (input: any) => flo.callTool({{ tool_id: "look", input }});
        export async function run() {{
          const {{ call: {{ entry }} }} = await flo.task.getContext<any>();
          const r = await call(entry === 1 ? {{ a: 1, b: 2.0 }} : {{ b: 2, a: 1 }});
          {GO_ON}
          return r.status;
        }}
    """
    project.tool("ask", script)
    stage = Stage(project, look := Act("look", echo, direct_call=True))
    assert await entered_twice(stage) == "success"
    assert len(look.runs) == 1
