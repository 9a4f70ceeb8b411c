"""A second message continues the conversation."""

from pydantic_ai import Agent

guide = Agent("openai:gpt-5")
first = guide.run_sync("I am in Oslo")
print(guide.run_sync("What can I see here?", message_history=first.all_messages()).output)
