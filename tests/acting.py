"""Tools that do what a test says and keep count, and the events of a log in short words."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from penstock.agents.agent import Agent
from penstock.agents.settings import ChatSettings
from penstock.app.runtime import Runtime
from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.core.events import CallSettled, Event
from penstock.core.ids import LogId
from penstock.core.messages import AssistantMessage, ToolMessage
from penstock.models.model import ModelRequest
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ANY_INPUT, ToolSpec

Deed = Callable[[Json, Invocation], Awaitable[Any]]


async def nothing_much(input: Json, invocation: Invocation) -> Any:
    return {"done": invocation.call.tool_id}


async def echo(input: Any, invocation: Any) -> Any:
    return dict(input)


class Act:
    """A tool that does one thing, and keeps every input it ran with."""

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


def calling(*tool_ids: str) -> Deed:
    """Call these tools one after the other, and return the statuses."""

    async def deed(input: Json, invocation: Invocation) -> Any:
        return [(await invocation.invoke(each, {"x": 1})).status.value for each in tool_ids]

    return deed


def together(*tool_ids: str) -> Deed:
    """Call these tools at once, and return the statuses."""

    async def deed(input: Json, invocation: Invocation) -> Any:
        inner = [invocation.invoke(each, {"n": n}) for n, each in enumerate(tool_ids)]
        return [each.status.value for each in await asyncio.gather(*inner)]

    return deed


def raising(error: BaseException) -> Deed:
    """Fail like this."""

    async def deed(input: Json, invocation: Invocation) -> Any:
        raise error

    return deed


class Gate:
    """A deed that stands still until the test opens it."""

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


async def events(runtime: Runtime, log_id: str) -> list[Event]:
    """Return all that happened in a log."""
    return [each.event for each in await runtime.parts.log.read(LogId(log_id))]


async def kinds(runtime: Runtime, log_id: str) -> list[str]:
    """Return the names of all that happened in a log."""
    return [type(each).__name__ for each in await events(runtime, log_id)]


async def settled(runtime: Runtime, log_id: str) -> list[CallSettled]:
    """Return the outcomes of all calls, in the order of the log."""
    return [each for each in await events(runtime, log_id) if isinstance(each, CallSettled)]


def code(outcome: CallSettled) -> str:
    """Return the code of a failure, `ok` for a success."""
    error = outcome.envelope.error
    return "ok" if error is None else error.code


def agent(**settings: Any) -> Agent:
    """Return the assistant with these settings."""
    return Agent(settings=ChatSettings(**settings))


def assert_whole(request: ModelRequest) -> None:
    """Every call in what the model reads has exactly one tool message, right behind it."""
    messages: Sequence[Any] = list(request.messages)
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            count = len(message.calls)
            behind = messages[index + 1 : index + 1 + count]
            assert [each.call_id for each in behind] == [each.call_id for each in message.calls]
    made = sum(len(each.calls) for each in messages if isinstance(each, AssistantMessage))
    assert made == sum(isinstance(each, ToolMessage) for each in messages)
