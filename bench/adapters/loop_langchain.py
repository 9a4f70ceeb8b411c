"""LangChain create_agent on LangGraph, its loop."""

import itertools

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from bench.kit.script import FINAL, current

DISTRIBUTION = "langchain"
META = {"persistence": "none"}
_thread = itertools.count()


class Fake(BaseChatModel):
    @property
    def _llm_type(self):
        return "fake"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        calls = [
            {"name": "add", "args": args, "id": call_id}
            for call_id, args in current().next(len(messages))
        ]
        message = AIMessage(content="", tool_calls=calls) if calls else AIMessage(content=FINAL)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        return self._generate(messages)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return current().add(a, b)


def make(**kwargs):
    return create_agent(Fake(), [add], **kwargs)


async def run(agent, **kwargs):
    config = {"recursion_limit": 100_000, "configurable": {"thread_id": str(next(_thread))}}
    state = await agent.ainvoke({"messages": [("user", "go")]}, config, **kwargs)
    return state["messages"][-1].content
