"""A program that pays, and can be started again after a kill."""

from pathlib import Path

from agents import Agent, Runner, SQLiteSession, function_tool


@function_tool
def pay(order: int) -> str:
    """Pay for an order."""
    with Path("paid.txt").open("a") as file:
        file.write(f"{order}\n")
    return f"{order} is paid"


clerk = Agent(name="clerk", model="gpt-5", tools=[pay])
session = SQLiteSession("order-7", "history.db")
print(Runner.run_sync(clerk, "Pay order 7", session=session).final_output)
