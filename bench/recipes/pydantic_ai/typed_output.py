"""The answer is a value of a type."""

from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent


class Ticket(BaseModel):
    title: str
    severity: Literal["low", "high"]


triage = Agent("openai:gpt-5", output_type=Ticket)
print(triage.run_sync("The printer burns").output.severity)
