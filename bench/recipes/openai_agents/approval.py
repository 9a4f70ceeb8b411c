"""A person approves a call at the terminal."""

from agents import Agent, Runner, function_tool


@function_tool(needs_approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


clerk = Agent(name="clerk", model="gpt-5", tools=[refund])
result = Runner.run_sync(clerk, "Refund order 7")
while result.interruptions:
    state = result.to_state()
    for call in result.interruptions:
        decide = (
            state.approve if input(f"{call.name} {call.arguments} y/n ") == "y" else state.reject
        )
        decide(call)
    result = Runner.run_sync(clerk, state)
print(result.final_output)
