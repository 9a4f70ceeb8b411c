"""Run the calls of one reply: in parallel, in sequence, or alone.

It guarantees that at most `max_parallel_tools` calls of a reply run at once, that a tool with
`exclusive=True` runs alone, that calls with an equal exclusive key run in the order of the reply,
and that a call which waits for a person does not stop the others: all settle before Suspend is
raised.

Order matters in `one`: a call takes the lock of its key first, then a slot. The other way round,
calls that wait for their key would occupy all slots. asyncio locks are fair, so calls of a key run
in the order of the reply. Proof: `tests/agents/test_call_runner.py`.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

from penstock.agents.agent import ChatSettings
from penstock.agents.loop_guard import LoopGuard, spelling
from penstock.core.call import Call, ToolCall
from penstock.core.call_errors import CallError
from penstock.core.errors import Suspend
from penstock.engine.ledger import Ledger, Occurrences
from penstock.tools.invoker import Invoker
from penstock.tools.policy import Caller


class CallRunner:
    """Runs the calls of a task."""

    __slots__ = ("_guard", "_max_parallel", "_settings", "invoker", "is_done", "ledger")

    def __init__(self, invoker: Invoker, ledger: Ledger, settings: ChatSettings) -> None:
        self.invoker = invoker
        self.ledger = ledger
        self._settings = settings
        self._max_parallel = settings.max_parallel_tools
        self._guard: LoopGuard | None = None
        self.is_done = False
        """A call ended the task, so no round follows."""

    @property
    def guard(self) -> LoopGuard:
        """The loop guard. It is made on first use: most tasks make no call."""
        if self._guard is None:
            self._guard = self.guarding()
        return self._guard

    def guarding(self) -> LoopGuard:
        """Return a new guard."""
        return LoopGuard(self._settings)

    def begin(self, asked: Sequence[ToolCall], seen: Occurrences) -> LoopGuard | None:
        """Return the guard for a new round; None if this has settled all calls of its reply."""
        return self.begin_round()

    def begin_round(self) -> LoopGuard:
        """Return the guard for a new round."""
        guard = self.guard
        guard.begin_round()
        return guard

    def guard_after(self, calls: Sequence[ToolCall]) -> LoopGuard:
        """Return the guard after a round that it did not see before."""
        guard = self.begin_round()
        for call in calls:
            guard.judge(call, spelling(call))
        return guard

    def run(self, calls: Sequence[Call], caller: Caller) -> Awaitable[object]:
        """Run the calls of a reply.

        Raises Suspend if some wait for people. The others are settled before that.
        """
        if len(calls) == 1:  # the usual case, without a task of its own
            return self.invoker.call(calls[0], caller, self.ledger)
        return self._run_all(calls, caller)

    async def _run_all(self, calls: Sequence[Call], caller: Caller) -> None:
        waiting: list[Suspend] = []
        for batch in self._batches(calls):
            # With return_exceptions, because a call that waits must not cancel the others.
            ended = await asyncio.gather(*self._start(batch, caller), return_exceptions=True)
            for outcome in ended:
                if isinstance(outcome, Suspend):
                    waiting.append(outcome)
                elif isinstance(outcome, BaseException):
                    raise outcome
        if waiting:
            raise Suspend(*[awaited for suspend in waiting for awaited in suspend.awaited])

    def _start(self, calls: Sequence[Call], caller: Caller) -> "list[asyncio.Task[Any]]":
        keyed = [(call, key) for call in calls for key in self._keys(call)]
        invoke, ledger = self.invoker.call, self.ledger
        # The usual reply has few calls and no keys: it needs no slots and no task around each call.
        if len(keyed) <= self._max_parallel and not any(key for _, key in keyed):
            create = asyncio.get_running_loop().create_task
            return [create(invoke(call, caller, ledger)) for call, _ in keyed]
        slots = asyncio.Semaphore(self._max_parallel)
        locks: dict[str, asyncio.Lock] = {}

        async def one(call: Call, key: str | None) -> None:
            if key is None:
                async with slots:
                    await invoke(call, caller, ledger)
                return
            async with locks.setdefault(key, asyncio.Lock()), slots:
                await invoke(call, caller, ledger)

        return [asyncio.create_task(one(call, key)) for call, key in keyed]

    def _batches(self, calls: Sequence[Call]) -> Iterator[list[Call]]:
        """Split the calls so that an exclusive one is a batch of its own."""
        batch: list[Call] = []
        for call in calls:
            tool = self.invoker.registry.by_id.get(call.tool_id)
            if tool is None or tool.spec.exclusive is not True:
                batch.append(call)
                continue
            if batch:
                yield batch
            yield [call]
            batch = []
        if batch:
            yield batch

    def _keys(self, call: Call) -> Iterator[str | None]:
        """Yield the exclusive key of a call or None. A failing key settles the call instead."""
        try:
            yield self.invoker.key_of(call)
        except CallError as error:
            self.invoker.refuse(call, self.ledger, error, "")
