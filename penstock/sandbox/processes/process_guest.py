"""A guest in a process of its own, which can be evicted and replaced at any time.

Guarantees that the process never outlives its entry, that what it sends is checked like the
messages of any script (`MachineWorld`; a broken frame ends the entry), and that an eviction is
invisible to the script.

The process answers each step with `idle` once all jobs of the script are done; until then it sends
the messages of the script and asks for answers, randomness and hashes. If other tasks need its
slot (process_slots.py), the process is killed: while it waits (`_give_way`) or while it computes
(`_preempt`). Then another process repeats all deliveries so far, muted, and continues. That works
because the same deliveries lead to the same messages. Of a preempted step no message was taken, so
its messages are discarded and its computing time is returned. Proof:
tests/sandbox/processes/test_process_guest.py and test_process_sandbox.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from penstock.core.call_errors import OutOfMemory, ScriptError
from penstock.core.json_values.json_text import parse_json
from penstock.sandbox.guest import MIB, EntryRequest, begin_step, digest, world_of
from penstock.sandbox.guest_sources import plan_of
from penstock.sandbox.messages import Delivery, Message
from penstock.sandbox.processes.process import Process

_PATIENCE = 0.25
"""Seconds to wait for the rejections of a script that has ended and may still compute."""
_MEMORY = ("out of memory", "CodeRange", "allocation failed", "MemoryError")
"""Words on stderr of an engine that ended because memory was exhausted."""
_KILLED = -9
TakeProcess = Callable[..., Awaitable[Process]]
"""Called with megabytes of memory, a task and `again`; returns a process that is ready."""
_MAX_FRAME = 64 * MIB


class ProcessGuest:
    """Computes one script in a process."""

    def __init__(self, request: EntryRequest, take: TakeProcess) -> None:
        self._request = request
        self._timer = request.timer
        self._take_process = take
        self._taking: asyncio.Future[Process] | None = None
        self._process: Process | None = None
        self._world = world_of(request)
        self._rejected = 0
        self._is_idle = True
        self._delivered: list[Delivery] = []
        """All deliveries so far, to repeat in another process."""
        self._evictions = 0
        self._is_preempted = False
        """The process was evicted while it computed."""

    async def advance(self, deliveries: Sequence[Delivery], held: int) -> Sequence[Delivery]:
        """Deliver until the script makes a host call; return the deliveries that are left."""
        while True:
            process = await self._opened()
            rest = await self._try_step(process, deliveries, held)
            if rest is not None:
                break
        self._delivered += deliveries[: len(deliveries) - len(rest)]
        if process.slot is not None and self._is_idle:
            process.slot.idle(self._give_way, self._evictions, cost=self._replay_seconds)
        return rest

    async def _try_step(
        self, process: Process, deliveries: Sequence[Delivery], held: int
    ) -> Sequence[Delivery] | None:
        """Return the deliveries that are left; None if the process was evicted meanwhile."""
        self._mark_busy(process)
        begin_step(self._world, self._request.bounds, held)
        before, messages = len(self._world.outbox), self._world.messages
        self._timer.begin(is_sliced=False)
        try:
            return await self._step_in_time(process, deliveries)
        except (EOFError, ConnectionError):
            if not self._is_preempted:
                raise await self._broken(process) from None
        finally:
            took = self._timer.end()
        # No message of this step was taken; the step sends them again in the next process.
        del self._world.outbox[before:]
        self._world.messages = messages
        self._timer.forgive(took)
        self.free()
        return None

    async def _step_in_time(
        self, process: Process, deliveries: Sequence[Delivery]
    ) -> Sequence[Delivery]:
        limit = asyncio.timeout(max(self._timer.computing_left, 0))
        try:
            async with limit:
                return await self._step(process, deliveries)
        except ValueError as error:
            raise RuntimeError(str(error)) from None
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(self._timer.alarm() or "timeout") from None

    def _mark_busy(self, process: Process) -> None:
        self._is_preempted = False
        if process.slot is not None:
            process.slot.busy(self._preempt, self._evictions, cost=self._replay_seconds)

    @property
    def _replay_seconds(self) -> float:
        """Seconds of computing that a replay takes."""
        return self._timer.computed_ms / 1000

    def take(self) -> list[Message]:
        """Return the messages of the script since the last call."""
        messages, self._world.outbox = self._world.outbox, []
        return messages

    async def rejections(self) -> list[str]:
        """Return a line for each unhandled rejection."""
        process = self._process
        if process is None:
            return []
        self._mark_busy(process)
        with suppress(TimeoutError, EOFError, ValueError):
            async with asyncio.timeout(min(_PATIENCE, max(self._timer.left, 0))):
                while not self._is_idle:
                    await self._receive(process)
                if self._rejected:
                    self._world.is_over, self._is_idle = False, False
                    process.write("rejections")
                    while not self._is_idle:
                        await self._receive(process)
        return [message.value for message in self.take() if message.kind == "rejected"]

    def stop(self, reason: str) -> None:
        """Stop the script at once."""
        self._timer.ended = self._timer.ended or reason
        if self._taking is not None:
            self._taking.cancel()
        if self._process is not None:
            self._process.kill()

    def free(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None

    async def _opened(self) -> Process:
        """Return the process; start and replay one if there is none."""
        if self._process is not None:
            return self._process
        limit = asyncio.timeout(max(self._timer.left, 0))
        try:
            async with limit:
                self._process = await self._taken()
                return await self._entered(self._process)
        except TimeoutError:
            if not limit.expired():
                raise
            never_ran = self._process is None and not self._evictions
            raise TimeoutError("queued" if never_ran else "timeout") from None

    async def _entered(self, process: Process) -> Process:
        process.bound(_MAX_FRAME + self._request.bounds.message_bytes)
        process.write("script", plan_of(self._request.script).encode())
        try:
            await self._replay(process)
        except EOFError:
            raise await self._broken(process) from None
        return process

    async def _taken(self) -> Process:
        """Wait for a process. Raises TimeoutError with the reason of the timer.

        A script that was evicted while idle goes to the front of its task's queue. One that was
        evicted while it computed goes to the end.
        """
        if self._timer.ended:
            raise TimeoutError(self._timer.ended)
        bounds, task = self._request.bounds, self._request.bridge.task
        has_waited = self._evictions > 0 and not self._is_preempted
        taking = self._take_process(bounds.memory_mb, task, again=has_waited)
        self._taking = asyncio.ensure_future(taking)
        try:
            return await self._taking
        except asyncio.CancelledError:
            self._taking.cancel()
            if self._timer.ended:
                raise TimeoutError(self._timer.ended) from None
            raise
        finally:
            self._taking = None

    async def _replay(self, process: Process) -> None:
        """Bring a process to the state of the evicted one; its messages are muted."""
        if not self._evictions:
            return
        # Not between `begin` and `end` of the timer: a replay costs the script no computing time.
        before, self._world = self._world, world_of(self._request)
        self._world.is_muted = True
        for delivery in self._delivered:
            await self._step(process, [delivery])
        self._world.is_muted = False
        self._world.messages, self._world.outbox = before.messages, before.outbox

    def _give_way(self) -> None:
        """End the process while the script waits; another process continues it."""
        if self._process is not None:
            self._process.close()
            self._process = None
            self._evictions += 1

    def _preempt(self) -> None:
        """End the process while it computes; another process repeats the step."""
        if self._process is not None:
            self._is_preempted = True
            self._process.kill()
            self._evictions += 1

    async def _step(self, process: Process, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        self._is_idle = False
        for delivery in deliveries:
            text, attachments = delivery.to_wire()
            kind = "last" if delivery is deliveries[-1] else "more"
            head = f"{kind}\n{delivery.at_ms}".encode()
            encoded = text.encode("utf-8", "surrogatepass")
            process.write("deliver", head, encoded, *attachments)
        # In parallel with reading: a process that only writes would fill both buffers and block.
        flushing = asyncio.ensure_future(process.flush())
        try:
            while not self._world.is_over:
                done = await self._receive(process)
                if done is not None:
                    return deliveries[done:]
        finally:
            flushing.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await flushing
        return ()

    async def _receive(self, process: Process) -> int | None:
        """Handle one frame; return the number of deliveries taken if the step has ended."""
        kind, parts = await process.read()
        match kind, parts:
            case "post", [text, *attachments]:
                self._world.receive(text.decode("utf-8", "replace"), attachments)
            case "idle", [counts]:
                done, self._rejected = map(int, counts.split())
                self._is_idle = True
                return done
            case "answer", [call]:
                name, _, arguments = call.decode("utf-8", "replace").partition("\n")
                answer = self._world.answer(name, parse_json(arguments))
                await self._reply(process, answer.encode("utf-8", "surrogatepass"))
            case "random", [count]:
                await self._reply(process, self._world.draw(int(count)))
            case "digest", [name, content]:
                await self._reply(process, _digest(name.decode("ascii", "replace"), content))
            case "ready", []:
                pass
            case "broken", [how, message]:
                raise _error(how, message.decode("utf-8", "replace"))
            case _:
                raise ValueError(f"{kind!r} is not a frame of an engine")
        return None

    async def _reply(self, process: Process, answer: bytes) -> None:
        if process.unsent > _MAX_FRAME:
            raise ValueError("it does not read the answers to its questions")
        process.write("reply", answer)
        await process.flush()

    async def _broken(self, process: Process) -> Exception:
        """Return the reason of an unexpected end of the process."""
        code, _, stderr = (await process.last_words()).partition("\n")
        if self._timer.ended:
            return TimeoutError(self._timer.ended)
        # The kernel's out-of-memory killer leaves no message, only SIGKILL.
        if any(sign in stderr for sign in _MEMORY) or int(code) == _KILLED:
            return OutOfMemory()
        return RuntimeError(f"its process ended with {code}: {stderr.strip()[-500:]}")


def _error(how: bytes, message: str) -> Exception:
    """Return the error that an engine reported before its end."""
    match how:
        case b"memory":
            return OutOfMemory()
        case b"script":
            return ScriptError(message)
        case _:
            return RuntimeError(message)


def _digest(name: str, content: bytes) -> bytes:
    try:
        return digest(name, content)
    except KeyError:
        raise ValueError(f"{name!r} is not a hash function") from None
