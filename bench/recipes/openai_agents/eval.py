"""A case with the expected answer is asked and scored."""

from typing import Literal

from agents import Agent, Runner
from pydantic import BaseModel


class Ticket(BaseModel):
    title: str
    severity: Literal["low", "high"]


triage = Agent(name="triage", model="gpt-5", output_type=Ticket)
cases = {"It burns": Ticket(title="fire", severity="high")}
passed = 0
for text, expected in cases.items():
    output = Runner.run_sync(triage, text).final_output_as(Ticket)
    print(text, "passes" if output == expected else f"fails: {output}")
    passed += output == expected
print(f"{passed / len(cases):.0%}")
