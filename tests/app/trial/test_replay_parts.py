"""The parts of a project around a replay."""

from penstock import Agent
from penstock.models.scripted import ScriptedModel, say
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.replays import replayed


async def test_a_model_that_is_gone_is_not_needed() -> None:
    """A machine of CI needs no key: the record has the replies."""
    place = MemoryStorage()
    model = ScriptedModel([say("Yes.")])
    before = Agent("clerk", model="other:small")
    async with memory_runtime(agents=[before], model=model, place=place) as runtime:
        await runtime.chat("Tea?", agent=before)
    after = Agent("clerk", model="other:large")
    report = await replayed(place, tools=(), agents=(after,))
    assert report.difference is None or report.difference.kind == "prompt"
