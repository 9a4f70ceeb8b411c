"""Hooks that a test writes as functions, and an agent that they watch."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from penstock import (
    Agent,
    ChatSettings,
    Hooks,
    Limits,
    Refuse,
    Reply,
)
from penstock.core.ids import LogId
from penstock.core.messages import ToolMessage
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.testing.runtime import MemoryStorage, memory_runtime

Method = Callable[..., Any]


def hook(name: str = "watch", **methods: Method) -> Hooks[Any]:
    """Return a hook with these methods, each a coroutine of its arguments after the context."""

    def bound(method: Method) -> Method:
        async def asked(self: Any, ctx: Any, *about: Any) -> Any:
            return await method(*about)

        return asked

    kind = type("Kind", (Hooks,), {each: bound(method) for each, method in methods.items()})
    made: Hooks[Any] = kind()
    made.name = name
    return made


class Shop:
    """An agent with one tool, and what its tool was called with."""

    def __init__(self, *hooks: Hooks[Any], **settings: Any) -> None:
        self.refunds: list[int] = []
        self.place = MemoryStorage(limits=Limits(shutdown_seconds=0))

        def refund(amount: int) -> str:
            """Refund an amount."""
            self.refunds.append(amount)
            return f"refunded {amount}"

        self.agent = Agent("clerk", tools=[refund], hooks=hooks, settings=ChatSettings(**settings))

    async def chat(self, *replies: ScriptedReply) -> tuple[Reply[Any], ScriptedModel]:
        """Send one message to the agent."""
        model = ScriptedModel(replies)
        async with memory_runtime(model=model, agents=[self.agent], place=self.place) as runtime:
            return await runtime.chat("Refund it", agent="clerk"), model

    async def events(self, reply: Reply[Any], kind: type) -> list[Any]:
        """Return the events of one kind in the log of a reply."""
        records = await self.place.log.read(LogId(reply.session))
        return [each.event for each in records if isinstance(each.event, kind)]


REFUND = call("refund", amount=120)


async def refused(_: Any) -> Refuse:
    return Refuse("Refunds need a person.")


async def raising(*_: Any) -> Any:
    raise ValueError("no list")


async def hanging(*_: Any) -> Any:
    """Swallow the first cancellation; the end of the test is the second one."""
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


def told(model: ScriptedModel) -> str:
    """Return the outcome that the model read last."""
    message = model.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    return message.content
