"""Strands, its loop.

An agent holds its conversation and is not re-entrant, so every run makes a fresh one: the figures
of a turn and of runs per CPU-second include that.
"""

import json

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models.model import Model

from bench.kit.script import FINAL, current

DISTRIBUTION = "strands-agents"
META = {"persistence": "none", "note": "fresh agent per run"}


class Fake(Model):
    def update_config(self, **kwargs):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *args, **kwargs):
        raise AssertionError("the bench has another way in")
        yield

    async def stream(self, messages, *args, **kwargs):
        calls = current().next(len(messages))
        yield {"messageStart": {"role": "assistant"}}
        for call_id, arguments in calls:
            yield {
                "contentBlockStart": {"start": {"toolUse": {"name": "add", "toolUseId": call_id}}}
            }
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": FINAL}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}
        usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return current().add(a, b)


def make():
    return Agent(
        model=Fake(),
        tools=[add],
        callback_handler=None,
        conversation_manager=NullConversationManager(),
    )


async def run(agent):
    return str(await make().invoke_async("go")).strip()
