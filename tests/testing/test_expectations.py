"""The comparison of calls for tests of users."""

import pytest

from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.expectations import assert_calls
from penstock.testing.runtime import memory_runtime
from tests.kit.tools import Act


async def test_calls_are_compared_with_their_whole_input_in_their_order() -> None:
    script = [call("look", n=1, deep=True) + call("look", n=2), say("Done.")]
    async with memory_runtime(model=ScriptedModel(script), tools=[Act("look")]) as runtime:
        reply = await runtime.chat("Look twice")
    assert_calls(reply, [("look", {"deep": True, "n": 1}), ("look", {"n": 2})])
    for wrong in ([("look", {"n": 1}), ("look", {"n": 2})], [("look", {"n": 2})], []):
        with pytest.raises(AssertionError, match="the calls differ"):
            assert_calls(reply, wrong)


async def test_the_difference_marks_what_was_expected_and_what_was_made() -> None:
    script = [call("look", n=1), say("Done.")]
    async with memory_runtime(model=ScriptedModel(script), tools=[Act("look")]) as runtime:
        reply = await runtime.chat("Look")
    with pytest.raises(AssertionError) as raised:
        assert_calls(reply, [("look", {"n": 2})])
    assert str(raised.value).splitlines()[1:] == ['  - look {"n": 2}', '  + look {"n": 1}']
