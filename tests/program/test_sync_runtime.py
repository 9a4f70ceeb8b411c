"""The runtime without async: in scripts, in a running loop, from several threads."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.core.errors import ConfigError, RuntimeMisuse
from penstock.models.scripted import ScriptedModel, call, say
from penstock.program.opening import chat_sync, open_sync
from penstock.program.sync_runtime import SyncRuntime
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool

RUNTIMES: list[SyncRuntime] = []


def clerk(*texts: str) -> Agent:
    return Agent("clerk", model=ScriptedModel([say(text) for text in texts]))


async def test_it_works_inside_a_running_loop() -> None:
    with open_sync(":memory:", agents=[clerk("Hi.")]) as runtime:
        assert runtime.chat("Hello", agent="clerk").output == "Hi."


def test_it_works_from_two_threads_at_once() -> None:
    model = ScriptedModel(lambda request: say(request.messages[-1].content))
    with open_sync(":memory:", model=model) as runtime, ThreadPoolExecutor(2) as pool:
        texts = [f"Hello {n}" for n in range(6)]
        assert [reply.output for reply in pool.map(runtime.chat, texts)] == texts


def test_questions_are_answered_without_async() -> None:
    @tool(effect="write", requires_approval=True)
    def send(to: str) -> str:
        """Send a letter."""
        return to

    @tool(effect="write")
    async def choose(ctx: ToolContext) -> str:
        """Ask for a colour."""
        return str(await ctx.ask("Which?", options=["red", "green"]))

    calls = [call("send", to="Ann"), call("send", to="Bob"), call("choose"), say("Done.")]
    with open_sync(":memory:", model=ScriptedModel(calls), tools=[send, choose]) as runtime:
        reply = runtime.approve(runtime.chat("Go"))
        assert runtime.questions() == list(reply.questions)
        runtime.reject(reply.questions[0], "not him")
        reply = runtime.wait(reply)
        done = runtime.answer(reply, "green")
        assert runtime.attach(done.task_id).reply().calls == done.calls
        runtime.cancel(done.task_id)
    assert [each.output for each in done.calls] == ["Ann", None, "green"]


def test_a_long_output_is_read_without_async() -> None:
    @tool(effect="read")
    def long() -> str:
        """Return much."""
        return "long " * 4_000

    agent = Agent("clerk", model=ScriptedModel([call("long"), say("Done.")]), tools=[long])
    with open_sync(":memory:", agents=[agent]) as runtime:
        (done,) = runtime.chat("Go", agent=agent).calls
        assert (done.output, runtime.read_output(done)) == (None, "long " * 4_000)


def test_direct_calls_work_without_async() -> None:
    @tool(effect="none", direct_call=True)
    def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    with open_sync(":memory:", tools=[double]) as runtime:
        assert runtime.call("double", {"n": 2}).output == 4


def test_a_tool_that_uses_the_sync_runtime_fails_instead_of_hanging() -> None:
    @tool(effect="none")
    async def nested() -> str:
        """Call the runtime from inside."""
        return RUNTIMES[-1].chat("Again").content

    model = ScriptedModel([call("nested"), say("Done.")])
    with open_sync(":memory:", model=model, tools=[nested]) as runtime:
        RUNTIMES.append(runtime)
        (failed,) = runtime.chat("Go").calls
    assert failed.status == "failed"
    assert failed.error
    assert "would never end" in failed.error


def test_a_closed_runtime_names_the_line_to_write() -> None:
    runtime = open_sync(":memory:")
    runtime.close()
    runtime.close()
    with pytest.raises(RuntimeMisuse, match="write `with penstock"):
        runtime.chat("Hello")
    with pytest.raises(RuntimeMisuse, match="write `with penstock"):
        runtime.put_agent(clerk())
    with pytest.raises(ConfigError):
        open_sync("/nowhere/at/all")


def test_two_lines_continue_a_conversation_in_another_opening(tmp_path: Path) -> None:
    model = ScriptedModel([say("One."), say("Two.")])
    agent = Agent("clerk", model=model)
    first = chat_sync("Hello", agent=agent, path=tmp_path)
    again = chat_sync("And?", agent=agent, path=tmp_path, session=first.session)
    assert (first.output, again.output) == ("One.", "Two.")
    assert len(model.requests[1].messages) == 3


SCRIPT = """
import atexit
from penstock import RuntimeMisuse, open_sync
from penstock.testing import ScriptedModel, call, say

def is_closed():
    try:
        runtime.chat("Hello")
    except RuntimeMisuse:
        print("closed")

async def stop():
    "Close the runtime from inside, which is refused."
    runtime.close()

atexit.register(is_closed)
model = ScriptedModel({"": [call("stop"), say("Refused.")]})
runtime = open_sync(":memory:", model=model, tools=[stop])
print(runtime.chat("Hello").status)
"""


@pytest.mark.programs
def test_a_program_that_forgets_to_close_ends_in_peace(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=30,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "succeeded\nclosed\n")
    assert ran.stderr.startswith("tool stop failed\n")
    assert ran.stderr.count("Traceback") == ran.stderr.count("would never end") == 1


def test_async_code_runs_in_the_loop_of_the_runtime() -> None:
    async def work(runtime: Runtime) -> str:
        return (await runtime.chat("Hello")).status

    with open_sync(":memory:") as runtime:
        assert runtime.do(work) == "succeeded"


def test_conversations_are_listed_read_imported_and_deleted_without_async(tmp_path: Path) -> None:
    agent = Agent("clerk", model=ScriptedModel(lambda _: say("Hi.")))
    with open_sync(tmp_path, agents=[agent], settings={"synchronous": "NORMAL"}) as runtime:
        replies = list(runtime.map(["One", "Two"], agent=agent, key="monday"))
        session = runtime.import_history(runtime.history(replies[0].session), agent=agent)
        assert len(runtime.sessions(agent="clerk")) == 3
        runtime.delete(session)
        runtime.put_agent(Agent("clerk", model=ScriptedModel([say("Replaced.")])))
        again = runtime.chat("Hello", agent="clerk", session=replies[0].session)
    assert [reply.output for reply in replies] == ["Hi.", "Hi."]
    assert again.output == "Replaced."
