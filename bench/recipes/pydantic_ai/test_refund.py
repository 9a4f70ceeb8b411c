"""A test without a network: the replies of the model are scripted."""

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

clerk = Agent("openai:gpt-5", defer_model_check=True)


@clerk.tool_plain
def refund(order: int) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse([ToolCallPart("refund", {"order": 7})])
    return ModelResponse([TextPart("Done.")])


def test_refund() -> None:
    with clerk.override(model=FunctionModel(script)):
        result = clerk.run_sync("Refund order 7")
    assert result.output == "Done."
    parts = [part for message in result.all_messages() for part in message.parts]
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    assert [(call.tool_name, call.args) for call in calls] == [("refund", {"order": 7})]
