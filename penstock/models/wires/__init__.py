"""Each provider's own form of requests and replies: chat completions, Anthropic, Pydantic AI."""
