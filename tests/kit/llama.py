"""The llama.cpp server on this machine, started for tests; the words of its model are noise."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from msgspec.structs import replace

from penstock.core.messages import Usage
from penstock.core.text import cut
from penstock.models.model import (
    CallDelta,
    Finished,
    Model,
    ModelEvent,
    ModelRequest,
    ToolDefinition,
)

SEEN = 100
"""Characters of each text that the model reads."""
Narrow = Callable[[ModelRequest], ToolDefinition]


@contextmanager
def llama_server(context: int | None = None) -> Iterator[str]:
    """Yield the address of a server that reads so many tokens; it ends with the block."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.peer.serve", *([str(context)] if context else [])],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with server:
        assert server.stdin is not None
        assert server.stdout is not None
        ready = next(line for line in server.stdout if line.startswith("READY"))
        yield f"http://127.0.0.1:{ready.split()[1]}"
        server.stdin.close()


class Constrained:
    """A model that is offered one call at a time, narrowed until every choice makes sense.

    Its context window is small and its words are noise: it reads the beginning of each text, and
    only the first of its calls counts.
    """

    def __init__(self, model: Model, narrow: Narrow) -> None:
        self.card = model.card
        self.requests: list[ModelRequest] = []
        self._model = model
        self._narrow = narrow

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield a reply that the grammar of the server allows."""
        self.requests.append(request)
        messages = request.messages[:1]
        tools = (self._narrow(request),)
        shortened = replace(
            request, system=cut(request.system, SEEN), messages=messages, tools=tools
        )
        async with aclosing(self._model.stream(shortened)) as events:
            async for event in events:
                if isinstance(event, CallDelta) and event.index > 0:
                    yield Finished("tool_calls", Usage())
                    return
                yield event

    async def close(self) -> None:
        """Give connections back."""
        await self._model.close()
