"""LangGraph with AsyncSqliteSaver and its own settings.

superstep: a graph of one node that loops, whose state is a number. tool_turn: create_agent with the
fake model, where a tool turn is two nodes and the state is the whole history. The mode `exit`
writes only once per run, so it has no durable step to measure.
"""

import itertools
from typing import TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.adapters import loop_langchain
from bench.kit import script

DISTRIBUTION = "langgraph"
WRITES = ["sync", "async"]
MODES = [f"superstep_{w}" for w in WRITES] + [f"tool_turn_{w}" for w in WRITES]
UNIT = "tool_turn: a tool turn of create_agent (two nodes); superstep: a node of a loop"
_threads = itertools.count()


class State(TypedDict):
    left: int


async def countdown(state):
    return {"left": state["left"] - 1}


def loop_graph(saver):
    graph = StateGraph(State)
    graph.add_node("step", countdown)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["left"] > 0 else END)
    return graph.compile(checkpointer=saver)


async def begin(mode, directory):
    manager = AsyncSqliteSaver.from_conn_string(f"{directory}/checkpoints.db")
    saver = await manager.__aenter__()
    kind, durability = mode.rsplit("_", 1)
    graph = loop_graph(saver) if kind == "superstep" else loop_langchain.make(checkpointer=saver)
    return manager, kind, durability, graph


async def run(context, steps):
    _, kind, durability, graph = context
    if kind == "tool_turn":
        scripted = script.start(steps, 1)
        scripted.check(await loop_langchain.run(graph, durability=durability))
        return
    config = {"recursion_limit": 100_000, "configurable": {"thread_id": f"s{next(_threads)}"}}
    state = await graph.ainvoke(
        {"left": steps + 1}, config, durability=durability
    )  # one node even at 0 steps
    assert state["left"] == 0


async def end(context):
    await context[0].__aexit__(None, None, None)
