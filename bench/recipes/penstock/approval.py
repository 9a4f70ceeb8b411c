"""A person approves a call at the terminal."""

from penstock import Agent, open_sync, tool


@tool(requires_approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


clerk = Agent("clerk", model="openai:gpt-5", tools=[refund])
with open_sync(agents=[clerk]) as runtime:
    reply = runtime.chat("Refund order 7", agent=clerk)
    while reply.questions:
        for question in reply.questions:
            runtime.answer(question, input(f"{question.text} {question.input} y/n ") == "y")
        reply = runtime.wait(reply)
    print(reply.output)
