"""The answer is a value of a type."""

from typing import Literal

from pydantic import BaseModel

from penstock import Agent, chat_sync


class Ticket(BaseModel):
    title: str
    severity: Literal["low", "high"]


triage = Agent("triage", model="openai:gpt-5", output=Ticket)
print(chat_sync("The printer burns", agent=triage).output.severity)
