"""Scripts that are entered again: after crashes, approvals, answers, as the pages on them say."""

import asyncio
from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.envelope import Status
from penstock.core.events import CallStarted
from penstock.core.limits import Limits
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryPlace
from tests.kit.dying_log import DyingLog
from tests.kit.project import ProjectFolder
from tests.kit.stage import Stage
from tests.kit.tools import Act, echo

ORDER = """
    export async function run({ order }: { order: string }) {
      const a = await flo.callTool({ tool_id: "reserve_stock", input: { order } });
      const b = await flo.callTool({ tool_id: "charge_card", input: { order } });
      return { a: a.status, b: b.status };
    }
"""
GOOD, CUT = {"a": "success", "b": "success"}, {"a": "failed", "b": "success"}

# Writes to the log: 1 the request, 2 the task and the script's start, 3 the script's clock, 4 the
# start of reserve_stock, 5 its outcome, 6 and 7 those of charge_card, 8 the script's outcome.
E1 = [
    ("before it is committed as started", 4, True, False, 1, 1, GOOD),
    ("started, did not run", 4, False, False, 0, 1, CUT),
    ("started, ran, not settled", 5, True, False, 1, 1, CUT),
    ("the same, with idempotent", 5, True, True, 2, 1, GOOD),
    ("reserve_stock settled", 5, False, False, 1, 1, GOOD),
    ("charge_card not started", 6, True, False, 1, 1, GOOD),
    ("charge_card settled", 7, False, False, 1, 1, GOOD),
    ("the script not settled", 8, True, False, 1, 1, GOOD),
]


@pytest.mark.parametrize("row", E1, ids=lambda row: row[0])
async def test_e1_a_crash_between_calls(project: ProjectFolder, row: Any) -> None:
    """E1: the process is killed before or after a write to the log."""
    _, write, before, idempotent, stock, card, output = row
    keys: list[str] = []

    async def reserve(_given: Any, invocation: Any) -> str:
        keys.append(invocation.idempotency_key)
        return "reserved"

    spec: dict[str, Any] = {"effect": Effect.WRITE, "direct_call": True}
    reserve_stock = Act("reserve_stock", reserve, idempotent=idempotent, **spec)
    charge_card = Act("charge_card", **spec)
    project.tool("order", ORDER)
    clock = FakeClock()
    log = DyingLog(clock, writes=write, before=before)
    place = MemoryPlace(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    stage = Stage(project, reserve_stock, charge_card, place=place)
    envelope = await stage.survive("order", {"order": "7"})
    assert envelope.output == output
    assert (len(reserve_stock.runs), len(charge_card.runs)) == (stock, card)
    assert len(set(keys)) <= 1
    codes = [each.error.code for each in await stage.outcomes("reserve_stock") if each.error]
    assert codes == (["INTERRUPTED"] if output == CUT else [])
    started = {e.idempotency_key for e in await stage.events() if isinstance(e, CallStarted)}
    assert set(keys) <= started


PARALLEL = """
    export async function run() {
      const [x, y, z] = await Promise.all([
        flo.callTool({ tool_id: "look", input: {} }),
        flo.callTool({ tool_id: "send", input: { to: "a" } }),
        flo.callTool({ tool_id: "post", input: {} })
          .then((r) => flo.callTool({ tool_id: "look", input: { id: r.output } })),
      ]);
      return [x.status, y.status, z.status, y.error?.code];
    }
"""


def acts() -> tuple[Act, Act, Act]:
    look = Act("look", direct_call=True)
    post = Act("post", effect=Effect.WRITE, direct_call=True)
    send = Act("send", echo, effect=Effect.WRITE, direct_call=True, requires_approval=True)
    return look, post, send


@pytest.mark.parametrize(
    ("decision", "output", "sent"),
    [
        ("approve", ["success", "success", "success", None], 1),
        ("reject", ["success", "failed", "success", "REJECTED"], 0),
    ],
)
async def test_e2_all_with_one_approval(
    project: ProjectFolder, decision: str, output: Any, sent: int
) -> None:
    """E2: "`look`, `post` and the second `look` run and settle; `send` opens question q1"."""
    look, post, send = acts()
    project.tool("all", PARALLEL)
    stage = Stage(project, look, post, send)
    parked = await stage.call("all")
    assert parked.status is Status.SUSPENDED
    assert (len(look.runs), len(post.runs), len(send.runs)) == (2, 1, 0)
    reply = await stage.answer({"decision": decision})
    assert reply.envelope
    assert reply.envelope.output == output
    assert (len(look.runs), len(post.runs), len(send.runs)) == (2, 1, sent)


@pytest.mark.parametrize("second", ["a", "b"], ids=["equal inputs", "other inputs"])
async def test_e2_two_sends_are_two_questions_and_two_runs(
    project: ProjectFolder, second: str
) -> None:
    """E2: "the first answer runs its call at once"; "two occurrences: two questions, two runs"."""
    *_, send = acts()
    script = """
        const send = (to: string) => flo.callTool({ tool_id: "send", input: { to } });
        export const run = async ({ to }: { to: string[] }) =>
          (await Promise.all(to.map(send))).map((r) => r.output);
    """
    project.tool("both", script)
    stage = Stage(project, send)
    await stage.call("both", {"to": ["a", second]})
    assert len(await stage.questions()) == 2
    reply = await stage.answer({"decision": "approve"})
    assert len(send.runs) == 1
    assert len(reply.questions) == 1
    reply = await stage.answer({"decision": "approve"})
    assert reply.envelope
    assert reply.envelope.output == [{"to": "a"}, {"to": second}]
    assert len(send.runs) == 2


async def test_e3_waiting_twice(project: ProjectFolder) -> None:
    """E3: "`post` ran once; output `["May","yes"]`"."""
    script = """
        export async function run() {
          const one = await flo.task.waitForUserMessage({ user_message: "Which month?" });
          await flo.callTool({ tool_id: "post", input: { month: one.user_message } });
          const two = await flo.task.waitForUserMessage({ user_message: "Send it?" });
          return [one.user_message, two.user_message];
        }
    """
    _, post, _ = acts()
    project.tool("months", script)
    stage = Stage(project, post)
    await stage.call("months")
    reply = await stage.answer({"text": "May"})
    assert [each.question.text for each in reply.questions] == ["Send it?"]
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope
    assert reply.envelope.output == ["May", "yes"]
    assert post.runs == [{"month": "May"}]


async def test_e3_two_waits_with_one_text_get_the_first_and_the_second_answer(
    project: ProjectFolder,
) -> None:
    script = """
        const wait = () => flo.task.waitForUserMessage({ user_message: "Next?" });
        export const run = async () => [(await wait()).user_message, (await wait()).user_message];
    """
    project.tool("next", script)
    stage = Stage(project)
    await stage.call("next")
    await stage.answer({"text": "one"})
    reply = await stage.answer({"text": "two"})
    assert reply.envelope
    assert reply.envelope.output == ["one", "two"]


STEP = """
    export async function run({ n }: { n: number }) {
      const make = async (input: any, key: string) => {
        const made = await flo.callTool({ tool_id: "make", input: { ...input, key } });
        if (made.error) throw new Error(made.error.message);
        return made.output;
      };
      const r = await flo.task.step({ key: "invoice", version: 1, input: { n },
          retry: { max_attempts: 3, initial_backoff_ms: 100, multiplier: 2, max_backoff_ms: 1000 } },
        async ({ input, attempt, idempotency_key }) => ({
           made: await make(input, idempotency_key), attempt, idempotency_key }));
      return r;
    }
"""


class Maker:
    """Fails so often, then makes something; a gate may hold it up in one of its runs."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.act = Act("make", self, effect=Effect.READ, direct_call=True)

    async def __call__(self, input: Any, invocation: Any) -> Any:
        if len(self.act.runs) <= self.failures:
            raise ValueError("not yet")
        return "made"


class NotedClock(FakeClock):
    """Remembers who slept, and how long."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)


async def passing(clock: FakeClock, calling: "asyncio.Future[Any]") -> Any:
    """Let time pass until a call has ended."""
    while not calling.done():
        await clock.elapse(0.02)
    return await calling


async def test_e4_a_step_is_tried_again_under_one_key_and_its_output_is_kept(
    project: ProjectFolder,
) -> None:
    """E4: "attempts 1, 2, 3, one key, waits of 100 and 200 ms, output stored"."""
    maker, clock = Maker(failures=2), NotedClock()
    project.tool("bill", STEP)
    stage = Stage(project, maker.act, place=MemoryPlace(clock=clock))
    envelope = await passing(clock, asyncio.ensure_future(stage.call("bill", {"n": 1})))
    assert envelope.output["attempt"] == 3
    assert [run["key"] for run in maker.act.runs] == [envelope.output["idempotency_key"]] * 3
    assert [each for each in clock.slept if each in {0.1, 0.2}] == [0.1, 0.2]


async def test_e4_killed_inside_attempt_2_attempt_2_comes_again(project: ProjectFolder) -> None:
    """E4: "Killed inside attempt 2 → entry again, attempt 2 again, same key"."""
    tried: list[Any] = []

    async def make(input: Any, invocation: Any) -> Any:
        tried.append(input["key"])
        if len(tried) == 1:
            raise ValueError("not yet")
        return await asyncio.Event().wait() if len(tried) == 2 else "made"

    act, clock = Act("make", make, direct_call=True), FakeClock()
    project.tool("bill", STEP)
    limits = Limits(shutdown_seconds=0)
    stage = Stage(project, act, place=MemoryPlace(clock=clock, limits=limits))
    async with stage.opened() as runtime:
        calling = asyncio.ensure_future(runtime.call("bill", {"n": 1}, task_id=stage.task_id))
        while len(tried) < 2:
            await clock.elapse(0.02)
        calling.cancel()
    clock.advance(limits.lease_seconds + 1)
    reply = await stage.wait()
    assert reply.envelope
    assert reply.envelope.output["attempt"] == 2
    assert tried == [reply.envelope.output["idempotency_key"]] * 3


async def test_e4_another_tool_of_the_task_gets_the_stored_output(project: ProjectFolder) -> None:
    """E4: "another tool of the same task with the same key, version and input: stored output"."""
    step = """
        export const run = ({ n, made, version }: any) =>
          flo.task.step({ key: "k", version: version ?? 1, input: { n } }, async () => made);
    """
    both = """
        const call = async (tool_id: string, input: any) => {
          const r = await flo.callTool({ tool_id, input });
          return r.output ?? r.error.message;
        };
        export const run = async () => [
          await call("one", { n: 1, made: "first" }),
          await call("two", { n: 1, made: "second" }),
          await call("two", { n: 2, made: "third" }),
          await call("two", { n: 2, made: "fourth", version: 2 }),
        ];
    """
    project.tool("one", step)
    project.tool("two", step)
    project.tool("both", both)
    found = await Stage(project).output("both")
    wrong = 'step "k" version 1 was used with other arguments'
    assert found == ["first", "first", wrong, "fourth"]


async def test_e4_a_step_in_a_step_and_two_at_once_are_mistakes(project: ProjectFolder) -> None:
    """E4: "A step inside a step, or two at once in one task: `TypeError`"."""
    script = """
        const step = (key: string, work: () => Promise<any>) =>
          flo.task.step({ key, version: 1, input: null }, work);
        const told = (work: Promise<any>) => work.catch((e: any) => e.name);
        export const run = async () => [
          await told(step("outer", () => step("inner", async () => 1))),
          ...(await Promise.all([
            told(step("a", () => flo.sleep(0))), told(step("b", async () => 2))])),
        ];
    """
    other = """
        const call = () => flo.callTool({ tool_id: "waits", input: {} });
        export const run = async () => (await Promise.all([call(), call()])).map((r) => r.status);
    """
    waits = """
        export const run = () => flo.task.step({ key: "w", version: 1, input: null },
          () => flo.callTool({ tool_id: "look", input: {} }).then(() => 1));
    """
    look, *_ = acts()
    project.tool("steps", script)
    project.tool("waits", waits)
    project.tool("parallel", other)
    assert await Stage(project).output("steps") == ["TypeError", None, "TypeError"]
    assert sorted(await Stage(project, look).output("parallel")) == ["failed", "success"]


DETACHED = """
    export async function run() {
      const r = await flo.callTool({ tool_id: "send", input: { to: "a" }, wait: false });
      if (r.status === "suspended") return { pending: r.question_id };
      return { sent: r.output };
    }
"""
WAITING = DETACHED.replace(", wait: false", "")


def twice(first: str, second: str) -> Act:
    """A frame that calls two tools, and asks a person between them."""

    async def deed(input: Any, invocation: Any) -> Any:
        before = await invocation.invoke(first, {})
        await invocation.ask("Go on?")
        return [before.output, (await invocation.invoke(second, {})).output]

    return Act("twice", deed, is_frame=True, direct_call=True)


@pytest.mark.parametrize("second", ["detached", "waiting"])
async def test_e5_a_later_call_takes_the_question_up(project: ProjectFolder, second: str) -> None:
    """E5: "the nested `send` with the same input takes up q1, runs once, returns `success`"."""
    *_, send = acts()
    project.tool("detached", DETACHED)
    project.tool("waiting", WAITING)
    stage = Stage(project, send, twice("detached", second))
    await stage.call("twice")
    pending, _ = await stage.questions()
    await stage.answer({"decision": "approve"})
    assert send.runs == []
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope
    assert reply.envelope.output == [{"pending": pending}, {"sent": {"to": "a"}}]
    assert len(send.runs) == 1


async def test_e5_while_it_is_open_a_further_call_names_the_same_question(
    project: ProjectFolder,
) -> None:
    """E5: "a call without it parks on q1"; "A task that ends withdraws such questions"."""
    *_, send = acts()
    project.tool("detached", DETACHED)
    project.tool("waiting", WAITING)
    project.tool(
        "main",
        """
        const call = async (tool_id: string) => (await flo.callTool({ tool_id, input: {} })).output;
        export const run = async ({ third }: any) =>
          [await call("detached"), await call("detached"), await call(third)];
    """,
    )
    stage = Stage(project, send)
    found = await stage.output("main", {"third": "detached"})
    assert found[0]["pending"]
    assert found == [found[0]] * 3
    assert await stage.questions() == []
    await stage.call("main", {"third": "waiting"})
    (question,) = await stage.questions()
    reply = await stage.answer({"decision": "approve"})
    assert reply.envelope
    assert reply.envelope.output[2] == {"sent": {"to": "a"}}
    assert reply.envelope.output[0] == {"pending": question}
    assert len(send.runs) == 1


async def test_e5_what_was_taken_up_is_not_taken_up_again(project: ProjectFolder) -> None:
    *_, send = acts()
    project.tool("detached", DETACHED)
    project.tool(
        "main",
        """
        const call = async () => (await flo.callTool({ tool_id: "detached", input: {} })).output;
        export const run = async () => {
          const first = await call();
          await flo.task.waitForUserMessage({ user_message: "Go on?" });
          return [first, await call(), await call()];
        };
    """,
    )
    stage = Stage(project, send)
    await stage.call("main")
    await stage.answer({"decision": "reject"})
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope
    first, second, third = reply.envelope.output
    assert second == {}
    assert third["pending"] not in {None, first["pending"]}
