"""A model that is told how much to think."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from penstock.models.model import Model, ModelEvent, ModelRequest


class ThinkingModel:
    """Another model, with a level of thinking in every request."""

    def __init__(self, model: Model, level: str) -> None:
        self.card = model.card
        self._model = model
        self.level = level

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the reply as it comes."""
        told = replace(request, thinking=self.level)
        async with aclosing(self._model.stream(told)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Leave the model open: it belongs to who made it."""
