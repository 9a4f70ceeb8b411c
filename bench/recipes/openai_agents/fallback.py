"""A second model answers if the first one does not."""

from agents import Agent, RunConfig, Runner
from openai import APIError

guide = Agent(name="guide", model="gpt-5")
try:
    result = Runner.run_sync(guide, "Hello")
except APIError:
    result = Runner.run_sync(guide, "Hello", run_config=RunConfig(model="gpt-5-mini"))
print(result.final_output)
