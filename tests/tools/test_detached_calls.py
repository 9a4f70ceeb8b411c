"""Calls that are not waited for: who asks again takes their questions up."""

import asyncio
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from penstock.core.call import Effect
from penstock.core.errors import LeaseLost, Suspend
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.counting_tools import killed
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act, echo


def acts() -> tuple[Act, Act, Act]:
    look = Act("look", direct_call=True)
    post = Act("post", effect=Effect.WRITE, direct_call=True)
    send = Act("send", echo, effect=Effect.WRITE, direct_call=True, requires_approval=True)
    return look, post, send


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
async def test_e5_a_later_equal_call_resumes_the_question(
    project: ProjectFolder, second: str
) -> None:
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


async def test_e5_an_equal_call_names_the_same_question_while_it_is_open(
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


async def test_e5_a_resumed_call_is_not_resumed_again(project: ProjectFolder) -> None:
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


@tool(effect="write")
async def posts(*, wait: bool, ctx: ToolContext) -> Any:
    """Call what needs an approval."""
    envelope = await ctx.call("send", {"to": "a"}, wait=wait)
    details = envelope.error.details if envelope.error else None
    return [envelope.status, details or envelope.output]


@tool(effect="none")
def posts_from_a_thread(ctx: ToolContext) -> str:
    """Call it from a thread."""
    return ctx.call_sync("send", {"to": "a"}, wait=False).status


async def test_a_function_that_does_not_wait_gets_the_open_questions() -> None:
    """`call(tool_id, input, wait=True)`: "same grants as a script"; so is what `wait` does."""
    *_, send = acts()
    bench = await open_workbench(posts, send)
    first = await bench.call("posts", {"wait": False})
    (question,) = bench.questions
    assert first.output == ["suspended", {"question_ids": [question.question_id]}]
    assert (await bench.call("posts", {"wait": False})).output == first.output
    with pytest.raises(Suspend):
        await bench.call("posts", {"wait": True})
    await bench.answer({"decision": "approve"})
    assert (await bench.call("posts", {"wait": False})).output == ["success", {"to": "a"}]
    assert len(send.runs) == 1


async def test_a_function_is_entered_again_when_it_waits_for_such_a_call() -> None:
    """Each effect once, and no write that only waited is called INTERRUPTED."""
    *_, send = acts()
    bench = await open_workbench(posts, send, clock=(clock := FakeClock()))
    await bench.call("posts", {"wait": False})
    for _ in range(3):
        with pytest.raises(Suspend):
            await bench.call("posts", {"wait": True})
        await bench.ledger.held.commit()
        clock.advance(bench.world.limits.lease_seconds + 1)
        await bench.take_over()
    await bench.answer({"decision": "approve"})
    assert (await bench.call("posts", {"wait": True})).output == ["success", {"to": "a"}]
    assert len(send.runs) == 1


async def test_a_plain_function_need_not_wait_either() -> None:
    *_, send = acts()
    bench = await open_workbench(posts_from_a_thread, send)
    assert (await bench.call("posts_from_a_thread")).output == "suspended"


async def test_a_call_that_asks_no_person_returns_its_outcome_without_wait() -> None:
    send = Act("send", echo, effect=Effect.WRITE, direct_call=True)
    bench = await open_workbench(posts, send)
    assert (await bench.call("posts", {"wait": False})).output == ["success", {"to": "a"}]
    assert (await bench.call("posts", {"wait": False})).output == ["success", {"to": "a"}]
    assert len(send.runs) == 2


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize("approved", [False, True])
async def test_a_crash_after_a_call_without_wait_interrupts_the_function(
    effect: Effect, *, approved: bool
) -> None:
    """What ran may not run again: the outcome is on disk before the function goes on."""
    done = []

    @tool(effect="write")
    async def pays(ctx: ToolContext) -> str:
        """Call another, then do something, and be killed."""
        await ctx.call("send", {"to": "a"}, wait=False)
        done.append("paid")
        raise LeaseLost("killed")

    send = Act("send", echo, effect=effect, direct_call=True, requires_approval=approved)
    bench = await open_workbench(pays, send)
    with pytest.raises(LeaseLost):
        await bench.call("pays")
    await killed(bench)
    envelope = await bench.call("pays")
    assert envelope.error
    assert envelope.error.code == "INTERRUPTED"
    assert done == ["paid"]


@tool(effect="write")
async def posts_twice(ctx: ToolContext) -> Any:
    """Call the same with and without waiting."""
    both = ctx.call("send", {"to": "a"}), ctx.call("send", {"to": "a"}, wait=False)
    return [each.status for each in await asyncio.gather(*both)]


async def test_a_call_that_waits_already_keeps_its_own_question() -> None:
    """The approved input runs, without a second question."""
    *_, send = acts()
    bench = await open_workbench(posts_twice, send)
    with pytest.raises(Suspend):
        await bench.call("posts_twice")
    await bench.answer({"decision": "approve"})
    bench.enter()
    assert (await bench.call("posts_twice")).output == ["success", "suspended"]
    assert len(send.runs) == 1


async def test_an_interrupted_write_stays_interrupted_while_an_equal_call_is_open() -> None:
    """It may have happened, so it is reported as interrupted, and no other call replaces it."""

    async def stand_still(input: Any, invocation: Any) -> Any:
        await asyncio.Event().wait()

    @tool(effect="none")
    async def both(ctx: ToolContext) -> list[str]:
        """Call the same with and without waiting."""
        calls = ctx.call("send", {"to": "a"}), ctx.call("send", {"to": "a"}, wait=False)
        return [each.status for each in await asyncio.gather(*calls)]

    send = Act("send", stand_still, effect=Effect.WRITE, direct_call=True)
    bench = await open_workbench(both, send)
    cut = asyncio.create_task(bench.call("both"))
    while len(send.runs) < 2:
        await checkpoint()
    await killed(bench)
    assert (await bench.call("both")).output == ["failed", "failed"]
    assert len(send.runs) == 2
    cut.cancel()
    await asyncio.wait([cut])


async def test_equal_calls_without_wait_are_separate_calls() -> None:
    send = Act("send", echo, effect=Effect.WRITE, direct_call=True)
    bench = await open_workbench(posts, send)
    for _ in range(4):
        await bench.call("posts", {"wait": False})
    assert len(send.runs) == 4
    assert bench.ledger.task.spent.tool_calls == 8


async def test_the_mark_of_a_wait_does_not_count_in_the_budget() -> None:
    *_, send = acts()
    bench = await open_workbench(posts, send)
    with pytest.raises(Suspend):
        await bench.call("posts", {"wait": True})
    await bench.answer({"decision": "approve"})
    bench.enter()
    assert (await bench.call("posts", {"wait": True})).ok
    assert bench.ledger.task.spent.tool_calls == 2
