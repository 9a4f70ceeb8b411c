"""The adapter for the OpenAI chat API, without an SDK: OpenAI, vLLM, Ollama, llama.cpp.

Proof: tests/models/wires/test_openai.py and tests/contracts/test_model.py.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from penstock.core.limits import Limits
from penstock.models.model import Finished, ModelEvent, ModelRequest, estimate, spent
from penstock.models.providers import ModelConfig
from penstock.models.wires.http import Endpoint, Post, bearer
from penstock.models.wires.openai_card import chat_card
from penstock.models.wires.openai_request import to_wire
from penstock.models.wires.openai_stream import ChatStream
from penstock.models.wires.wire_names import WireNames


class OpenAIModel:
    """A model of an OpenAI-compatible server."""

    def __init__(self, config: ModelConfig, limits: Limits) -> None:
        self.card = chat_card(config)
        self._config = config
        self._limits = limits
        self._endpoint = Endpoint(config, limits, path="/chat/completions", headers=bearer(config))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive."""
        chat, names = ChatStream(self._limits.reply_bytes), WireNames(request)
        body = to_wire(request, self._config, names)
        async with aclosing(self._endpoint.events(Post(body), chat)) as events:
            async for event in events:
                yield names.meant(event)
        if (tokens := chat.tokens) is None:
            usage = estimate(self.card, request, chat.chars)
        else:
            usage = spent(self.card, *tokens)
        yield Finished(chat.finish_reason, usage)

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()
