"""Servers that die at a chosen moment: forked from one process that has everything loaded.

Reads a line of JSON for each server to start, `{"directory", "kind", "number", "signal", "speed",
"settings"}`, and answers with its process id and its port. The server sends itself the signal at
the moment, which is the n-th `commit` of this process (on disk, not yet reported), its n-th
`effect` (done, not yet recorded), or the n-th `ask` of its model. Its clock runs `speed` times as
fast as that of the machine.
"""

import asyncio
import gc
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from penstock.agents.agent import Agent
from penstock.app.opening import Additions, open_project
from penstock.app.project import load_project
from penstock.app.runtime import Runtime
from penstock.app.settings import load
from penstock.core import clock
from penstock.core.call import tools_on
from penstock.core.events.codec import kind_of
from penstock.core.events.events import Record
from penstock.core.messages import AssistantMessage, UserMessage
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say, think
from penstock.server.application import create_application
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool

ERRANDS = {"Run the errand.": "errand", "Do not wait.": "hurried"}
"""Said to the model, it asks for one tool that has all done."""
NEWS = "What is new?"
"""Said to the model, it counts how often it was asked in this conversation."""
EFFECTS, MOMENTS = "effects", "moments"
LIMITS = {"lease_seconds": 0.6, "sweep_seconds": 0.2, "poll_seconds": 0.05}
BEGIN = clock.SystemClock().now()
"""When the clocks of all servers agree with that of the machine."""


class FastClock(clock.SystemClock):
    """A clock on which more time passes."""

    def __init__(self, speed: int) -> None:
        self._speed = speed

    def now(self) -> clock.Moment:
        return clock.Moment(BEGIN + (super().now() - BEGIN) * self._speed)

    def monotonic(self) -> float:
        return clock.SystemClock.monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self._speed)


class Moment:
    """Counts what happens in this process, and ends or freezes it when its number is up."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._directory = Path(spec["directory"])
        self._kind, self._number = spec["kind"], spec["number"]
        self._signal = spec["signal"]
        self._counts = {"commit": 0, "effect": 0, "ask": 0}

    def committed(self, records: Sequence[Record]) -> None:
        """Count a commit, which is on disk and not yet reported."""
        self._pass("commit", " + ".join(map(label_of, records)))

    def effect(self, name: str) -> None:
        """Make an effect, and count it; it is done, and nothing of it is noted."""
        self._write(EFFECTS, name)
        self._pass("effect", name)

    def script(self, request: ModelRequest) -> ScriptedReply:
        """Count what the model is asked."""
        self._count("ask")
        return news(request) or script(request)

    def _pass(self, kind: str, label: str) -> None:
        self._write(MOMENTS, f"{kind} {self._counts[kind] + 1} {label}")
        self._count(kind)

    def _count(self, kind: str) -> None:
        self._counts[kind] += 1
        if (kind, self._counts[kind]) == (self._kind, self._number):
            os.kill(os.getpid(), self._signal)

    def _write(self, name: str, line: str) -> None:
        file = os.open(self._directory / name, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(file, f"{line}\n".encode())
        os.close(file)


def label_of(record: Record) -> str:
    """Return what was committed, for people."""
    tools = " in ".join(reversed(tools_on(record.path))) if record.path else ""
    return f"{kind_of(record.event)} {tools}".strip()


def tools(moment: Moment) -> tuple[Any, ...]:
    """Return tools that leave a line for every effect."""

    @tool(direct_call=True)
    async def inner(number: int) -> int:
        """Do something that must not happen twice."""
        moment.effect(f"inner {number}")
        return number

    @tool
    async def outer(ctx: ToolContext) -> list[str]:
        """Call others: one, then two at once, then do something itself."""
        ended = [await ctx.call("inner", {"number": 1})]
        ended += await asyncio.gather(*(ctx.call("inner", {"number": n}) for n in (2, 3)))
        moment.effect("outer")
        return [each.status.value for each in ended]

    @tool
    async def plain() -> str:
        """Do something that must not happen twice."""
        moment.effect("plain")
        return "done"

    @tool(requires_approval=True, direct_call=True)
    async def guarded() -> str:
        """Do something that a person must allow."""
        moment.effect("guarded")
        return "done"

    @tool
    async def asking(ctx: ToolContext) -> str:
        """Ask a person, then do something with the answer."""
        colour = await ctx.ask("Which colour?")
        moment.effect("asking")
        return f"painted {colour}"

    return inner, outer, plain, guarded, asking, *callbacks(moment)


def callbacks(moment: Moment) -> tuple[Any, ...]:
    """Return tools that have others do things."""

    @tool(effect="none")
    async def errand(ctx: ToolContext) -> Any:
        """Call a script that does several things at once."""
        return (await ctx.call("order", {})).output

    @tool(direct_call=True)
    async def posting(ctx: ToolContext) -> list[str]:
        """Call two others without waiting for people, then do something itself."""
        ended = [await ctx.call("guarded", wait=False)]
        ended += [await ctx.call("inner", {"number": 1}, wait=False)]
        moment.effect("posting")
        return [each.status.value for each in ended]

    @tool(effect="none")
    async def hurried(ctx: ToolContext) -> Any:
        """Send it, then wait for the detached calls."""
        posted, guarded = await ctx.call("posting"), await ctx.call("guarded")
        return [posted.status.value, posted.output, guarded.status.value]

    return errand, posting, hurried, *shop(moment)


def shop(moment: Moment) -> tuple[Any, ...]:
    """Return tools that buy and give back, also by children."""

    @tool
    async def give_back(input: dict[str, str], output: str) -> str:
        """Give back what was bought."""
        moment.effect(f"give_back {input['item']}")
        return f"{output} is given back"

    @tool(revert=give_back)
    async def buy(item: str) -> str:
        """Buy something that must not be bought twice."""
        moment.effect(f"buy {item}")
        return item

    @tool(effect="none")
    async def share(ctx: ToolContext) -> list[Any]:
        """Have two children buy something."""
        tea = await ctx.spawn("Buy the tea.", key="tea")
        cup = await ctx.spawn("Buy the cup.", key="cup", after={"tea": tea})
        return await ctx.gather(tea, cup)

    return give_back, buy, share


def news(request: ModelRequest) -> ScriptedReply | None:
    """Count how often the question was asked, if it is asked now."""
    said = [each.content for each in request.messages if isinstance(each, UserMessage)]
    return say(f"News {len(said)}.") if said[-1:] == [NEWS] else None


def script(request: ModelRequest) -> ScriptedReply:
    """Ask for two calls at once, then for an approval and a question, then answer.

    An agent of a flow writes a file if it may, and finishes.
    """
    if any(each.name == "finish" for each in request.tools):
        return _in_a_flow(request)
    last = max(i for i, each in enumerate(request.messages) if isinstance(each, UserMessage))
    if errand := ERRANDS.get(request.messages[last].content):
        is_done = last < len(request.messages) - 1
        return say("All ", "is ", "done.") if is_done else call(errand)
    if (shopping := _shopping(request.messages[last].content)) is not None:
        made = sum(isinstance(each, AssistantMessage) for each in request.messages[last:])
        return [*shopping, say("All is done.")][made]
    done = [each for each in request.messages[last:] if isinstance(each, AssistantMessage)]
    match len(done):
        case 0:
            return think("Two ", "at once.") + call("outer") + call("plain")
        case 1:
            return say("Now ", "people.") + call("guarded") + call("asking")
        case _:
            return say("All ", "is ", "done.")


def _shopping(content: str) -> list[ScriptedReply] | None:
    """Return the calls for a message about the shop: for a child, or for its parent."""
    if child := re.search(r"Buy the (\w+)", content):
        return [call("buy", item=child[1])]
    if content == "Restock.":
        return [call("share"), call("buy", item="pot") + call("buy", item="pan"), call("asking")]
    return [] if content == "Nobody answered." else None


def _in_a_flow(request: ModelRequest) -> ScriptedReply:
    is_done = any(isinstance(each, AssistantMessage) for each in request.messages)
    if not is_done and any(each.name == "write" for each in request.tools):
        return call("write", path="note.txt", content="noted")
    task = next(each.content for each in request.messages if isinstance(each, UserMessage))
    branch = {"branch": "loop"} if "This is iteration" in task else {}
    return call("finish", status="complete", summary="done", files=[], **branch)


def serve(spec: dict[str, Any], bound: socket.socket) -> None:
    """Serve until killed."""
    moment = Moment(spec)
    directory, speed = Path(spec["directory"]), spec["speed"]
    limits = {name: seconds * speed for name, seconds in LIMITS.items()} | {"shutdown_seconds": 1}

    @asynccontextmanager
    async def runtime() -> AsyncIterator[Runtime]:
        settings = load(directory, limits=limits, **spec["settings"])
        model = ScriptedModel(moment.script)
        agents = (Agent("assistant", model=model),)
        time = FastClock(speed)
        added = Additions(tools=tools(moment), agents=agents, models=(model,), clock=time)
        async with open_project(settings, load_project(settings), added) as opened:
            opened.parts.storage.log.listen(moment.committed)
            yield opened

    app = create_application(runtime)
    config = uvicorn.Config(app, log_level="warning", lifespan="on", ws="none")
    uvicorn.Server(config).run([bound])


def main() -> None:
    """Fork a server for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # else each server begins with a collection of all that is loaded here
    for line in sys.stdin:
        with socket.create_server(("127.0.0.1", 0)) as bound:
            pid = os.fork()
            if not pid:
                sys.stdin.close()
                serve(json.loads(line), bound)
                os._exit(0)
            print(pid, bound.getsockname()[1], flush=True)  # noqa: T201  this is the answer


if __name__ == "__main__":
    main()
