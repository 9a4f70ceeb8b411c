"""The answer is a value of a type."""

from typing import Literal

from agents import Agent, Runner
from pydantic import BaseModel


class Ticket(BaseModel):
    title: str
    severity: Literal["low", "high"]


triage = Agent(name="triage", model="gpt-5", output_type=Ticket)
print(Runner.run_sync(triage, "The printer burns").final_output_as(Ticket).severity)
