"""Tools whose behaviour a test defines, and that record their inputs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ANY_INPUT, ToolSpec

Deed = Callable[[Json, Invocation], Awaitable[Any]]


async def nothing_much(input: Json, invocation: Invocation) -> Any:
    return {"done": invocation.call.tool_id}


async def echo(input: Any, invocation: Any) -> Any:
    return dict(input)


class Act:
    """A tool that runs one function and records every input."""

    def __init__(
        self,
        tool_id: str,
        deed: Deed = nothing_much,
        *,
        effect: Effect = Effect.READ,
        **spec: Any,
    ) -> None:
        self.spec = ToolSpec(
            tool_id=tool_id,
            description=f"Does {tool_id}.",
            effect=effect,
            **{"input_schema": ANY_INPUT} | spec,
        )
        self.runs: list[dict[str, Any]] = []
        self._deed = deed

    async def run(self, input: Json, invocation: Invocation) -> Any:
        self.runs.append(dict(input))
        return await self._deed(input, invocation)

    def preview(self, output: Any) -> str | None:
        return None

    def _needs(self, deps: object, /) -> None:
        """Need nothing."""


def calling(*tool_ids: str) -> Deed:
    """Return a function that calls these tools in turn and returns the statuses."""

    async def deed(input: Json, invocation: Invocation) -> Any:
        return [(await invocation.invoke(each, {"x": 1})).status.value for each in tool_ids]

    return deed


def together(*tool_ids: str) -> Deed:
    """Return a function that calls these tools concurrently and returns the statuses."""

    async def deed(input: Json, invocation: Invocation) -> Any:
        inner = [invocation.invoke(each, {"n": n}) for n, each in enumerate(tool_ids)]
        return [each.status.value for each in await asyncio.gather(*inner)]

    return deed


def raising(error: BaseException) -> Deed:
    """Return a function that raises this error."""

    async def deed(input: Json, invocation: Invocation) -> Any:
        raise error

    return deed


class Gate:
    """A function that blocks until the test opens it."""

    def __init__(self) -> None:
        self._here = asyncio.Event()
        self._open = asyncio.Event()

    async def __call__(self, input: Json, invocation: Invocation) -> Any:
        self._here.set()
        await self._open.wait()
        return {"passed": True}

    async def reached(self) -> None:
        await self._here.wait()

    def open(self) -> None:
        self._open.set()
