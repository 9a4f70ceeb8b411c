"""A person approves a call at the terminal."""

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.capabilities import HandleDeferredToolCalls


def ask(ctx: RunContext, requests: DeferredToolRequests) -> DeferredToolResults:
    results = DeferredToolResults()
    for call in requests.approvals:
        results.approvals[call.tool_call_id] = input(f"{call.tool_name} {call.args} y/n ") == "y"
    return results


clerk = Agent("openai:gpt-5", capabilities=[HandleDeferredToolCalls(ask)])


@clerk.tool_plain(requires_approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


print(clerk.run_sync("Refund order 7").output)
