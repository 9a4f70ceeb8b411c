"""Usage of tokens and money."""

from penstock.core.messages import NOTHING_SPENT, Usage

SPENT = Usage(input_tokens=1, output_tokens=2, model_calls=3, tool_calls=4, cost_usd=0.5)


def test_usage_has_wire_names() -> None:
    """Chat API 3.1: `"usage":{"inputTokens":1,…,"costUsd":null}`."""
    assert SPENT.to_wire() == {
        "inputTokens": 1,
        "outputTokens": 2,
        "modelCalls": 3,
        "toolCalls": 4,
        "costUsd": 0.5,
    }
    assert NOTHING_SPENT.to_wire()["costUsd"] is None
