"""Calls of modules of code steps to their host: tools, other servers, people."""

import asyncio

from penstock.core.call import Effect
from penstock.core.envelope import Status
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.flows.steps.kind import CodeEnvironment
from penstock.testing.runtime import memory_runtime
from tests.kit.code_environment import place_of, run_code, visit
from tests.kit.flows import RUN, WORKERS, run_in
from tests.kit.local_egress import way
from tests.kit.origin import answer, origin
from tests.kit.tools import Act, echo

DO = "export default"
CALLS = """
    const call = (tool_id) => flo.callTool({ tool_id, input: { n: 1 } });
    export default async () => ({ said: [
      (await call("named")).status, (await call("open")).status,
      (await call("direct")).status, (await call("other")).error.code,
      (await call("nothing")).error.code, (await call("code:count")).error.code] });
"""


async def test_a_module_can_call_global_tools_and_those_of_its_step(
    code_environment: CodeEnvironment,
) -> None:
    """`callTool` reaches global runtime tools and `tools:`."""
    tools = [
        Act("named", echo),
        Act("open", echo, is_global=True),
        Act("direct", echo, direct_call=True),
        Act("other", echo),
    ]
    event = await visit(code_environment, CALLS, *tools, fields=", outputs: [said], tools: [named]")
    assert event.result.outputs["said"] == [
        *["success"] * 3,
        "NOT_PERMITTED",
        "TOOL_NOT_FOUND",
        "NOT_PERMITTED",
    ]
    assert [len(each.runs) for each in tools] == [1, 1, 1, 0]


async def test_a_module_can_fetch_from_the_hosts_of_its_step(
    code_environment: CodeEnvironment,
) -> None:
    async def say(heard: str, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"hello"))

    module = f"""
        {DO} async ({{ port }}) => {{
          const said = await (await fetch(`http://api.test:${{port}}/`)).text();
          const refused = await fetch(`http://b.test:${{port}}/`).catch((e) => e.code);
          return {{ said, refused }};
        }}"""
    async with origin(say) as running:
        egress = f"egress: ['http://api.test:{running.port}']"
        inputs = f"inputs: {{port: '{running.port}'}}"
        text = f"  - {{id: count, type: code, outputs: [said, refused], {egress}, {inputs}}}"
        place = place_of(
            code_environment, text, {"count.ts": module}, egress=way(running.port, Limits()).egress
        )
        envelope = await run_code(code_environment, text, {}, place=place)
    count = envelope.output["results"]["count"]
    assert (count["said"], count["refused"]) == ("hello", "EGRESS_DENIED")


async def test_a_module_can_wait_for_a_person(code_environment: CodeEnvironment) -> None:
    module = f"""
        {DO} async () => {{
          const said = await flo.task.waitForUserMessage({{ user_message: "Go on?" }});
          return {{ said: said.user_message }};
        }}"""
    text = "  - {id: count, type: code, timeout: 500, outputs: [said]}"
    place = place_of(code_environment, text, {"count.ts": module})
    async with memory_runtime(agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
        assert envelope.status is Status.SUSPENDED
        (asked,) = await place.log.open_questions(LogId(RUN), RUN)
        await runtime.requests.answer(asked.question.question_id, {"text": "yes"})
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    assert reply.envelope.output["results"]["count"]["said"] == "yes"


async def test_a_tool_that_needs_approval_asks_a_person(code_environment: CodeEnvironment) -> None:
    send = Act("send", echo, effect=Effect.WRITE, requires_approval=True)
    asks = "await flo.callTool({ tool_id: 'send', input: {} })"
    module = f"{DO} async () => ({{ s: ({asks}).status }})"
    text = "  - {id: count, type: code, outputs: [s], tools: [send]}"
    place = place_of(code_environment, text, {"count.ts": module})
    async with memory_runtime(tools=[send], agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
        (asked,) = await place.log.open_questions(LogId(RUN), RUN)
        assert send.runs == []
        await runtime.requests.answer(asked.question.question_id, {"decision": "approve"})
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    assert reply.envelope.output["results"]["count"]["s"] == "success"


async def test_a_run_keeps_the_modules_it_started_with(
    code_environment: CodeEnvironment,
) -> None:
    """A run keeps these texts to its end, whatever is written meanwhile."""
    module = f"""
        {DO} async () => {{
          await flo.task.waitForUserMessage({{ user_message: "Go on?" }});
          return {{ said: "as it was" }};
        }}"""
    text = "  - {id: count, type: code, outputs: [said]}"
    place = place_of(code_environment, text, {"count.ts": module})
    async with memory_runtime(agents=WORKERS, place=place) as runtime:
        await run_in(runtime)
    place.flows = place_of(
        code_environment, text, {"count.ts": f"{DO} () => ({{ said: 'new' }})"}
    ).flows
    (asked,) = await place.log.open_questions(LogId(RUN), RUN)
    async with memory_runtime(agents=WORKERS, place=place) as runtime:
        await runtime.requests.answer(asked.question.question_id, {"text": "yes"})
        reply = await runtime.requests.wait(RUN)
    assert reply is not None
    assert reply.envelope is not None
    assert reply.envelope.output["results"]["count"]["said"] == "as it was"
