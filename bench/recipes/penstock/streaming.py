"""The text is printed while the model writes it."""

from penstock import Agent, open_sync

teller = Agent("teller", model="openai:gpt-5")
with open_sync(agents=[teller]) as runtime:
    run = runtime.start("Tell a story", agent=teller)
    for text in run.text():
        print(text, end="", flush=True)
    print(f"\n{run.reply().usage.output_tokens} tokens")
