"""Each provider's own form of requests and replies: OpenAI, Responses, Anthropic, Pydantic AI."""
