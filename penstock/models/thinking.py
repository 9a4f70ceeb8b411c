"""A model with a fixed level of thinking."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from penstock.models.model import Model, ModelEvent, ModelRequest


class ThinkingModel:
    """Wraps a model and adds a level of thinking to every request."""

    def __init__(self, model: Model, level: str) -> None:
        self.card = model.card
        self._model = model
        self.level = level

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive."""
        leveled = replace(request, thinking=self.level)
        async with aclosing(self._model.stream(leveled)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Do nothing: the wrapped model is shared, and `Models` closes it."""
