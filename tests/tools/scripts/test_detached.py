"""Calls that are not waited for: who asks again takes their questions up."""

from typing import Any

import pytest

from penstock.core.call import Effect
from tests.kit.project import ProjectFolder
from tests.kit.stage import Stage
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
