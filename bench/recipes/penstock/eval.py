"""A case with the expected answer is asked and scored."""

from typing import Literal

from pydantic import BaseModel

from penstock import Agent
from penstock.evals import Case, Dataset, Equal, evaluate_sync


class Ticket(BaseModel):
    title: str
    severity: Literal["low", "high"]


triage = Agent("triage", model="openai:gpt-5", output=Ticket)
burns = Case("burns", input="It burns", expected=Ticket(title="fire", severity="high"))
evaluate_sync(Dataset("triage", [burns], scorers=[Equal()]), agent=triage).print()
