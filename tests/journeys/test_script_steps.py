"""Steps of a task: retried under one key, stored for all its tools, one at a time."""

import asyncio
import json
from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.limits import Limits
from penstock.testing.clock import FakeClock, settle
from penstock.testing.runtime import MemoryStorage
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act, echo


def acts() -> tuple[Act, Act, Act]:
    look = Act("look", direct_call=True)
    post = Act("post", effect=Effect.WRITE, direct_call=True)
    send = Act("send", echo, effect=Effect.WRITE, direct_call=True, requires_approval=True)
    return look, post, send


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
    """Remembers who slept, and how long; a short sleep is over at once."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        is_short = 0 < seconds <= 0.2
        if is_short:
            self.advance(seconds)
        await super().sleep(0 if is_short else seconds)


async def test_e4_a_step_is_retried_under_one_key_and_its_output_is_stored(
    project: ProjectFolder,
) -> None:
    """E4: "attempts 1, 2, 3, one key, waits of 100 and 200 ms, output stored"."""
    maker, clock = Maker(failures=2), NotedClock()
    project.tool("bill", STEP)
    stage = Stage(project, maker.act, place=MemoryStorage(clock=clock))
    envelope = await stage.call("bill", {"n": 1})
    assert envelope.output["attempt"] == 3
    assert [run["key"] for run in maker.act.runs] == [envelope.output["idempotency_key"]] * 3
    assert [each for each in clock.slept if each in {0.1, 0.2}] == [0.1, 0.2]


async def test_e4_a_step_killed_in_attempt_2_repeats_attempt_2(project: ProjectFolder) -> None:
    """E4: "Killed inside attempt 2 → entry again, attempt 2 again, same key"."""
    tried: list[Any] = []

    async def make(input: Any, invocation: Any) -> Any:
        tried.append(input["key"])
        if len(tried) == 1:
            raise ValueError("not yet")
        return await asyncio.Event().wait() if len(tried) == 2 else "made"

    act, clock = Act("make", make, direct_call=True), NotedClock()
    project.tool("bill", STEP)
    limits = Limits(shutdown_seconds=0)
    stage = Stage(project, act, place=MemoryStorage(clock=clock, limits=limits))
    async with stage.opened() as runtime:
        calling = asyncio.ensure_future(runtime.call("bill", {"n": 1}, task_id=stage.task_id))
        while len(tried) < 2:
            await settle()
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
    output = await Stage(project).output("both")
    wrong = 'step "k" version 1 was used with other arguments'
    assert output == ["first", "first", wrong, "fourth"]


async def wait(_input: Any, _invocation: Any) -> None:
    await settle()


async def test_e4_nested_and_concurrent_steps_are_errors(project: ProjectFolder) -> None:
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
    look = Act("look", wait, direct_call=True)
    project.tool("steps", script)
    project.tool("waits", waits)
    project.tool("parallel", other)
    assert await Stage(project).output("steps") == ["TypeError", None, "TypeError"]
    assert sorted(await Stage(project, look).output("parallel")) == ["failed", "success"]


THROWN = {
    "RangeError": 'throw new RangeError("no")',
    "ToolError": """throw new flo.ToolError(
        { code: "NO", message: "no", retryable: true, details: { at: [1] } })""",
    "FloError": 'await flo.task.getState("")',
    "FloError of the vault": 'await flo.vault.get({ scope: "profile", key: "none" })',
    "AbortError": "AbortSignal.abort().throwIfAborted()",
    "TimeoutError": 'throw new DOMException("late", "TimeoutError")',
    "own class": """throw Object.assign(new (class Own extends Error { name = "Own"; })("own"),
        { more: 1 })""",
    "own name": 'throw Object.assign(new Error("own"), { name: "toString" })',
    "text": 'throw "text"',
    "number": "throw 42",
    "nothing": "throw undefined",
    "object": "throw { code: 7 }",
    "long text": 'throw new Error("x".repeat(5000))',
    "bad output": "return 1n as any",
    "output of another type": "return 1",
}


@pytest.mark.parametrize("work", THROWN.values(), ids=THROWN)
async def test_a_failed_step_throws_the_same_in_a_later_entry(
    project: ProjectFolder, work: str
) -> None:
    script = f"""
        const request = {{ key: "k", version: 1, output_schema: {{ type: "string" }} }};
        const told = (e: any) => [
          typeof e, e?.constructor?.name, e?.name, e?.message, Object.keys(e ?? {{}}), e?.code,
          e?.retryable, e?.continuable, e?.details, e instanceof Error,
          e instanceof DOMException, e instanceof flo.ToolError,
        ].map((each) => each ?? null);
        export async function run() {{
          const work = async (): Promise<any> => {{ {work}; }};
          const thrown = await flo.task.step(request, work).then(() => "nothing", told);
          console.log(JSON.stringify(thrown));
          await flo.task.waitForUserMessage({{ user_message: "Go on?" }});
          return thrown;
        }}
    """
    project.tool("fails", script)
    stage = Stage(project)
    await stage.call("fails")
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope
    (live,) = await stage.printed()
    assert reply.envelope.output == json.loads(live)


async def test_an_uncaught_failure_of_a_step_keeps_its_code(project: ProjectFolder) -> None:
    script = """
        export const run = () => flo.task.step({ key: "k", version: 1 }, () => {
          throw new flo.ToolError({ code: "NO", message: "no", details: { at: 1 } });
        });
    """
    project.tool("fails", script)
    error = (await Stage(project).call("fails")).error
    assert error
    assert (error.code, error.message, error.details) == ("NO", "no", {"at": 1})
