"""The worker process of the hardened engine `wasm`: runs one script and is killed afterwards.

`python -I -m penstock.sandbox.processes.worker CACHE` reads frames from stdin and writes frames to
stdout. It is confined before Python starts, so all of its threads are. It holds no secret and
decides nothing: messages of the script are passed on unchecked, and the sandbox checks them
(process_guest.py).
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.core.call_errors import OutOfMemory
from penstock.core.clock import SystemClock
from penstock.core.errors import PenstockError
from penstock.sandbox.guest import MIB, MachineWorld
from penstock.sandbox.guest_sources import TOOL
from penstock.sandbox.messages import ENDINGS, FrameReader, frame_of
from penstock.sandbox.script import RUNTIME, Module
from penstock.sandbox.wasm.machine import Machine, boot
from penstock.sandbox.wasm.wasi import start_engine

_CHUNK = 1 << 18
_MAX_FRAME = 1 << 31
"""Largest frame. The sandbox that sends frames is trusted."""


class Pipe:
    """Frames on stdin and stdout."""

    def __init__(self) -> None:
        self._frames = FrameReader(_MAX_FRAME)
        self._arrived: list[tuple[str, list[bytes]]] = []

    def read(self) -> tuple[str, list[bytes]]:
        """Wait for the next frame. Ends the process when stdin is closed."""
        while not self._arrived:
            content = os.read(0, _CHUNK)
            if not content:
                sys.exit(0)
            self._arrived.extend(self._frames.feed(content))
        return self._arrived.pop(0)

    def write(self, kind: str, *parts: bytes) -> None:
        """Send a frame."""
        frame = memoryview(frame_of(kind, parts))
        while frame:
            frame = frame[os.write(1, frame) :]

    def ask(self, kind: str, *parts: bytes) -> bytes:
        """Send a frame and return the reply. Frames that arrive first are kept for `read`."""
        self.write(kind, *parts)
        others: list[tuple[str, list[bytes]]] = []
        while (frame := self.read())[0] != "reply":
            others.append(frame)
        self._arrived[:0] = others
        return frame[1][0]


class RemoteWorld(MachineWorld, kw_only=True):
    """A world that passes all messages on to the sandbox, which checks them."""

    pipe: Pipe
    has_asked: bool = False

    def receive(self, text: str, attachments: Sequence[bytes]) -> None:
        """Pass a message on; nothing after the script's end."""
        if self.is_over:
            return
        self.pipe.write("post", text.encode(), *attachments)
        self.has_asked = self.has_asked or text.startswith("ask")
        self.is_over = text.partition("\n")[0] in ENDINGS


class Worker:
    """Runs one script, step by step, as the frames request."""

    def __init__(self, pipe: Pipe, cache: Path) -> None:
        self._pipe = pipe
        self._engine = start_engine(SystemClock(), cache)
        self._image = boot(self._engine)
        pipe.write("ready")
        self._machine: Machine | None = None
        self._world: RemoteWorld | None = None
        self._plan: dict[str, Any] = {}
        self._delivered, self._is_skipping = 0, False

    def serve(self) -> None:
        """Handle frames until stdin is closed."""
        while True:
            kind, parts = self._pipe.read()
            try:
                self._take(kind, parts)
            except OutOfMemory:
                self._pipe.write("broken", b"memory", b"")
            except PenstockError as error:
                self._pipe.write("broken", b"script", str(error).encode())
            except RuntimeError as trap:
                self._pipe.write("broken", b"trap", str(trap).encode())

    def _take(self, kind: str, parts: list[bytes]) -> None:
        match kind, parts:
            case "script", [plan]:
                self._plan = json.loads(plan)
                self._pipe.write("ready")
            case "deliver", [head, text, *attachments]:
                which, at_ms = head.decode().split("\n")
                self._deliver(int(at_ms), text.decode("utf-8", "surrogatepass"), attachments)
                if which == "last":
                    self._idle()
            case "rejections", []:
                if self._machine is not None:
                    self._machine.post_rejections()
                self._idle()
            case _:
                raise ValueError(f"{kind!r} is not a frame of a sandbox")

    def _deliver(self, at_ms: int, text: str, attachments: Sequence[bytes]) -> None:
        if self._is_skipping:
            return
        if self._machine is None or self._world is None:
            self._machine, self._world = self._entered(text)
        machine, world = self._machine, self._world
        world.now_ms, world.has_asked = at_ms, False
        machine.send(text, attachments)
        self._delivered += 1
        self._is_skipping = world.has_asked or world.is_over

    def _idle(self) -> None:
        rejected = len(self._machine.unhandled) if self._machine else 0
        self._pipe.write("idle", f"{self._delivered} {rejected}".encode())
        self._delivered, self._is_skipping = 0, False

    def _entered(self, beginning: str) -> tuple[Machine, RemoteWorld]:
        bounds = json.loads(beginning.split("\n", 2)[2])["bounds"]
        memory, stack = bounds["memoryMb"] * MIB, bounds["stackKb"] * 1024
        machine = Machine(self._engine, self._image, memory, stack)
        pipe = self._pipe
        world = RemoteWorld(
            pipe=pipe,
            modules=_modules(self._plan["modules"]),
            answer=lambda name, arguments: pipe.ask(
                "answer", f"{name}\n{json.dumps(arguments)}".encode()
            ).decode(),
            random_bytes=lambda count: pipe.ask("random", str(count).encode()),
            depth=0,
            max_messages=0,
            max_held=0,
        )
        machine.enter(world, self._plan["entry"].removeprefix(TOOL))
        return machine, world


def _modules(plan: Mapping[str, Any]) -> dict[str, Module]:
    return {
        name.removeprefix(TOOL): Module(
            name=name.removeprefix(TOOL),
            source=module["source"],
            imports={
                specifier: target.removeprefix(TOOL)
                for specifier, target in module["imports"].items()
            },
        )
        for name, module in plan.items()
        if name != RUNTIME
    }


if __name__ == "__main__":
    Worker(Pipe(), Path(sys.argv[1])).serve()
