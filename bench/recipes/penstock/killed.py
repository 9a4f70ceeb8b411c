"""A program that pays, and can be started again after a kill."""

from pathlib import Path

from penstock import Agent, open_sync, tool


@tool
def pay(order: int) -> str:
    """Pay for an order."""
    with Path("paid.txt").open("a") as file:
        file.write(f"{order}\n")
    return f"{order} is paid"


clerk = Agent("clerk", model="openai:gpt-5", tools=[pay])
with open_sync(agents=[clerk]) as runtime:
    print(runtime.chat("Pay order 7", agent=clerk, key="order-7").output)
