"""A test without a network: the replies of the model are scripted."""

from agents import Agent, RunConfig, Runner, ToolCallItem, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool
def refund(order: int) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


clerk = Agent(name="clerk", model="gpt-5", tools=[refund])


def test_refund() -> None:
    call = function_call("refund", {"order": 7}, call_id="1")
    model = ScriptedModel([[call], [assistant_message("Done.")]])
    result = Runner.run_sync(clerk, "Refund order 7", run_config=RunConfig(model=model))
    assert result.final_output == "Done."
    assert [item.raw_item for item in result.new_items if isinstance(item, ToolCallItem)] == [call]
