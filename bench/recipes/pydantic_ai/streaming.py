"""The text is printed while the model writes it."""

from pydantic_ai import Agent

teller = Agent("openai:gpt-5")
result = teller.run_stream_sync("Tell a story")
for text in result.stream_text(delta=True):
    print(text, end="", flush=True)
print(f"\n{result.usage.output_tokens} tokens")
