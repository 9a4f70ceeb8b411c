"""A model whose replies have a carry, which only the model itself may see."""

from collections.abc import AsyncGenerator

from msgspec.structs import replace

from penstock.core.messages import AssistantMessage, Carry, Usage
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
)
from penstock.models.scripted import SCRIPTED

MARKER = "c4rry-of-the-provider-e91"


class CarryingModel:
    """Calls a tool, then answers. Each reply has a carry with the marker, or with what is given."""

    def __init__(self, tool: str = "look", *, name: str = "carrying", marker: str = MARKER) -> None:
        self.card = replace(SCRIPTED, model_id=name, name=name)
        self.requests: list[ModelRequest] = []
        self._tool = tool
        self._marker = marker

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(replace(request, messages=tuple(request.messages)))
        last = request.messages[-1]
        thought = {"type": "thinking", "thinking": "hm", "signature": self._marker}
        yield ReasoningDelta("hm")
        if hasattr(last, "call_id"):
            yield TextDelta("Done.")
            parts = (thought, {"type": "text", "chars": 5})
            yield Finished("stop", Usage(), carry=Carry("p@h", self.card.name, "", parts))
            return
        yield CallDelta(0, self._tool, '{"n": 1}')
        parts = (thought, {"type": "call", "index": 0, "id": "toolu_1"})
        yield Finished("tool_calls", Usage(), carry=Carry("p@h", self.card.name, "", parts))

    async def close(self) -> None:
        """Do nothing."""

    @property
    def carries(self) -> list[list[str]]:
        """The families of the carries in each request."""
        return [
            [
                each.carry.family
                for each in request.messages
                if isinstance(each, AssistantMessage) and each.carry is not None
            ]
            for request in self.requests
        ]
