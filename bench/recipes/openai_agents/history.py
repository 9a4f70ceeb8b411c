"""A second message continues the conversation."""

from agents import Agent, Runner, SQLiteSession

guide = Agent(name="guide", model="gpt-5")
session = SQLiteSession("visitor", "history.db")
Runner.run_sync(guide, "I am in Oslo", session=session)
print(Runner.run_sync(guide, "What can I see here?", session=session).final_output)
