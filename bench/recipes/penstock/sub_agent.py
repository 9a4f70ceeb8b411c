"""An agent is a tool of another one."""

from penstock import Agent, chat_sync

researcher = Agent("researcher", model="openai:gpt-5", description="Researches a topic.")
writer = Agent("writer", model="openai:gpt-5", tools=[researcher])
print(chat_sync("Write about tides", agent=writer).output)
