"""A message has a picture."""

from penstock import Agent, Image, chat_sync

viewer = Agent("viewer", model="openai:gpt-5")
print(chat_sync(["What is this?", Image.open("photo.png")], agent=viewer).output)
