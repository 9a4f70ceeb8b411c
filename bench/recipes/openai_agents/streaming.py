"""The text is printed while the model writes it."""

import asyncio

from agents import Agent, Runner
from openai.types.responses import ResponseTextDeltaEvent

teller = Agent(name="teller", model="gpt-5")


async def main() -> None:
    result = Runner.run_streamed(teller, "Tell a story")
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            print(event.data.delta, end="", flush=True)
    print(f"\n{result.context_wrapper.usage.output_tokens} tokens")


asyncio.run(main())
