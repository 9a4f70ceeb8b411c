"""A second model answers if the first one does not."""

from pydantic_ai import Agent
from pydantic_ai.models.fallback import FallbackModel

guide = Agent(FallbackModel("openai:gpt-5", "openai:gpt-5-mini"))
print(guide.run_sync("Hello").output)
