"""A program that pays, and can be started again after a kill."""

from pathlib import Path

from pydantic_ai import Agent

clerk = Agent("openai:gpt-5")


@clerk.tool_plain
def pay(order: int) -> str:
    """Pay for an order."""
    with Path("paid.txt").open("a") as file:
        file.write(f"{order}\n")
    return f"{order} is paid"


print(clerk.run_sync("Pay order 7").output)
