"""The adapter for the OpenAI chat API, without an SDK: OpenAI, vLLM, Ollama, llama.cpp.

Proof: tests/models/wires/test_openai.py and tests/contracts/test_model.py.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from penstock.core.limits import Limits
from penstock.core.messages import Carry
from penstock.models.model import Finished, ModelEvent, ModelRequest, estimate, with_price
from penstock.models.providers import ModelConfig
from penstock.models.wires.carries import has_carries
from penstock.models.wires.http import Endpoint, Post, bearer
from penstock.models.wires.openai_card import chat_card
from penstock.models.wires.openai_request import REASONING, to_wire
from penstock.models.wires.openai_stream import ChatStream
from penstock.models.wires.wire_names import WireNames


class OpenAIModel:
    """A model of an OpenAI-compatible server."""

    def __init__(self, config: ModelConfig, limits: Limits) -> None:
        self.card = chat_card(config)
        self._config = config
        self._limits = limits
        self._endpoint = Endpoint(config, limits, path="/chat/completions", headers=bearer(config))
        self._provider = f"openai@{self._endpoint.host}"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive."""
        chat, names = ChatStream(self._limits.reply_bytes), WireNames(request)
        body = to_wire(request, self._config, self.card, names, provider=self._provider)
        post = Post(body, has_carry=has_carries(request))
        async with aclosing(self._endpoint.events(post, chat)) as events:
            async for event in events:
                yield names.meant(event)
        usage = chat.usage
        yield Finished(
            chat.finish_reason,
            estimate(self.card, request, chat.chars)
            if usage is None
            else with_price(self.card, usage),
            carry=self._carry(chat),
            response_id=chat.response_id,
            refusal=chat.refusal,
            raw_reason=chat.reason,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    def _carry(self, chat: ChatStream) -> Carry | None:
        """Return where the reply brought its reasoning: a loop of calls needs it again."""
        if not (chat.has_calls and chat.reasoning_field):
            return None
        part = {"type": REASONING, "field": chat.reasoning_field}
        return Carry(self._provider, self.card.family, "", (part,))
