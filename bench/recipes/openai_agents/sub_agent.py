"""An agent is a tool of another one."""

from agents import Agent, Runner

researcher = Agent(name="researcher", model="gpt-5")
research = researcher.as_tool("research", "Researches a topic.")
writer = Agent(name="writer", model="gpt-5", tools=[research])
print(Runner.run_sync(writer, "Write about tides").final_output)
