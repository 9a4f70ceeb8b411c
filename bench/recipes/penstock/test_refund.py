"""A test without a network: the replies of the model are scripted."""

from penstock import Agent, tool
from penstock.testing import ScriptedModel, assert_calls, call, memory_runtime_sync, say


@tool
def refund(order: int) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


clerk = Agent("clerk", model="openai:gpt-5", tools=[refund])


def test_refund() -> None:
    model = ScriptedModel([call("refund", order=7), say("Done.")])
    with memory_runtime_sync(model=model, agents=[clerk]) as runtime:
        reply = runtime.chat("Refund order 7", agent=clerk)
    assert reply.output == "Done."
    assert_calls(reply, [("refund", {"order": 7})])
