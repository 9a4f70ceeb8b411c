"""A runtime in memory in tests without async."""

from typing import Any

import pytest

from penstock import Agent, tool
from penstock.core.errors import NotReady
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.sync_runtime import memory_runtime_sync
from tests.kit.tools import Act


def test_a_test_without_async_uses_the_same_runtime() -> None:
    clerk = Agent("clerk", model="openai:gpt-5", tools=[Act("look")])
    model = ScriptedModel([call("look", n=1), say("Seen.")])
    with memory_runtime_sync(model=model, agents=[clerk]) as runtime:
        reply = runtime.chat("Look", agent=clerk)
    assert (reply.output, [each.tool for each in reply.calls]) == ("Seen.", ["look"])


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_tool_that_kills_its_runtime_was_cut(effect: Any, is_async: bool) -> None:
    runs: list[int] = []

    @tool(effect=effect)
    def look() -> str:
        """Look."""
        runs.append(1)
        if len(runs) == 1:
            runtime.kill()
        return "seen"

    @tool(effect=effect, id="look")
    async def late_look() -> str:
        """Look."""
        return look()

    model = ScriptedModel({"": [call("look"), say("Done.")]})
    clerk = Agent("clerk", model=model, tools=[late_look if is_async else look])
    with memory_runtime_sync(agents=[clerk]) as runtime:
        run = runtime.start("Look", agent=clerk)
        with pytest.raises(NotReady, match="the runtime was closed while the task runs"):
            run.reply()
        reply = runtime.reopen().attach(run.task_id, agent=clerk).reply()
    assert len(runs) == (2 if effect == "read" else 1)
    (made,) = reply.calls
    assert made.status == ("success" if effect == "read" else "failed")
