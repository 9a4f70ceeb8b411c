"""A case with the expected answer is asked and scored."""

from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected


class Ticket(BaseModel):
    title: str
    severity: Literal["low", "high"]


triage = Agent("openai:gpt-5", output_type=Ticket)


async def ask(text: str) -> Ticket:
    return (await triage.run(text)).output


fire = Ticket(title="fire", severity="high")
burns = Case(name="burns", inputs="It burns", expected_output=fire)
dataset = Dataset(name="triage", cases=[burns], evaluators=[EqualsExpected()])
dataset.evaluate_sync(ask).print()
