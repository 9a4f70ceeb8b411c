"""A second message continues the conversation."""

from penstock import Agent, chat_sync

guide = Agent("guide", model="openai:gpt-5")
first = chat_sync("I am in Oslo", agent=guide)
print(chat_sync("What can I see here?", agent=guide, session=first.session).output)
