"""A message has a picture."""

from pathlib import Path

from pydantic_ai import Agent, BinaryContent

viewer = Agent("openai:gpt-5")
print(viewer.run_sync(["What is this?", BinaryContent.from_path(Path("photo.png"))]).output)
