"""A scripted model of a recorded task."""

import pytest

from penstock.core.errors import RuntimeMisuse
from penstock.models.scripted import ScriptedModel, call, fail, say, think
from penstock.testing.recorded import recorded_model
from penstock.testing.runtime import memory_runtime
from tests.kit.tools import Act


async def test_a_recorded_task_runs_again_with_the_same_replies() -> None:
    script = [
        think("Hm.") + say("Let me ", "look.") + call("look", n=1),
        say("Done."),
    ]
    replies = []
    model = ScriptedModel(script)
    for _ in range(2):
        look = Act("look")
        async with memory_runtime(model=model, tools=[look]) as runtime:
            replies.append(await runtime.chat("Look"))
        assert look.runs == [{"n": 1}]
        model = recorded_model(replies[0])
    first, second = replies
    assert (first.content, first.usage) == (second.content, second.usage)
    assert [each.tool for each in first.calls] == [each.tool for each in second.calls]


async def test_a_task_without_a_reply_of_a_model_has_no_script() -> None:
    async with memory_runtime(model=ScriptedModel({"": fail(400)})) as runtime:
        reply = await runtime.chat("Hello")
    with pytest.raises(RuntimeMisuse, match="so it has no script"):
        recorded_model(reply)
