"""A second model answers if the first one does not."""

from penstock import Agent, Fallback, chat_sync

guide = Agent("guide", model=Fallback("openai:gpt-5", "openai:gpt-5-mini"))
print(chat_sync("Hello", agent=guide).output)
