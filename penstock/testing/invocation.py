"""Calls one tool, or a few, through an invoker of their own, without a model: for tests."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, cast

from penstock.core.call import Call, Origin
from penstock.core.clock import Clock
from penstock.core.envelope import Envelope
from penstock.core.errors import InvalidAnswer, LeaseLost
from penstock.core.events.events import (
    CallRequested,
    CallSettled,
    CancelRequested,
    Entry,
    Event,
    QuestionAnswered,
    TaskStarted,
)
from penstock.core.ids import LogId, TaskId, new_id
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.limits import Limits, World
from penstock.core.profile import LOCAL
from penstock.core.task import Question, QuestionStatus
from penstock.engine.answers import check_answer
from penstock.engine.budget import Allowance, Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger, Occurrences
from penstock.engine.session_state import fold
from penstock.engine.task_state import TaskState
from penstock.resources.signed_links import Links
from penstock.store.blobs import open_blobs
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from penstock.testing.resources import MemoryFiles, MemoryMedia, MemoryState
from penstock.tools.artifacts import Artifacts
from penstock.tools.invocation import Attempt, Invocation, NestedCalls
from penstock.tools.invoker import Invoker
from penstock.tools.policy import Caller, Rule, RuleSet
from penstock.tools.resources import Resources
from penstock.tools.tool import Registry, Tool

_KEY = bytes(32)
_PLENTY = 3600.0


class Workbench:
    """Tools behind the real Invoker, in one running task, all in memory; see `open_workbench`.

    A call that waits for a person raises Suspend: use `answer`, then `enter`, then call again.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        rules: Iterable[Rule],
        world: World,
        reached: Mapping[str, Any],
    ) -> None:
        self.world = world
        self.log = MemoryLog(world.clock, world.limits)
        self.blobs = open_blobs("memory:///")
        self.resources = Resources(
            artifacts=Artifacts(self.blobs, world.limits, world.new_id),
            blobs=self.blobs,
            files=MemoryFiles(self.log.changes, world.clock),
            state=MemoryState(self.log.changes, world.clock),
            media=MemoryMedia(self.log.changes, world.clock),
            links=Links(_KEY, world.clock),
            **reached,
        )
        self.invoker = Invoker(Registry(tools), RuleSet(rules), self.resources, world=world)
        self.allowance = Allowance()
        self.model = Caller(
            origin=Origin.MODEL,
            agent_tools=frozenset(tool.spec.tool_id for tool in self.invoker.registry),
            clip_at=10_000,
        )
        """A model that may call every tool."""
        self._task_id = TaskId(world.new_id("task"))
        self._owners = 0
        self._seen: Occurrences
        self.ledger: Ledger
        """The ledger of the task."""

    async def begin(self) -> None:
        """Start the task."""
        requested = CallRequested(tool_id="", input={}, profile_id=LOCAL)
        await self.log.send(LogId(self._task_id), [Entry(requested, self._task_id)])
        await self.take_over()
        self.ledger.add(TaskStarted())

    async def take_over(self) -> None:
        """Resume the task from its log alone, as another process does after a crash."""
        log_id = LogId(self._task_id)
        self._owners += 1
        lease = await self.log.acquire(log_id, f"owner-{self._owners}")
        if lease is None:
            raise LeaseLost(f"the lease of log {log_id} is held; let it expire first")
        state, now = fold(log_id, await self.log.read(log_id)), self.world.clock.monotonic()
        held = HeldLog(self.log, lease, state, self.world, since=now)
        task = held.state.current or cast("TaskState", held.state.next_task())
        self.ledger = Ledger(held, task, Budget(self.allowance, task.spent, self.world.clock), _KEY)
        self.enter()

    def enter(self) -> None:
        """Restart the turn, so that equal calls are replayed."""
        self._seen = self.ledger.occurrences(f"{self._task_id}/1")

    async def call(
        self,
        tool_id: str,
        input: Mapping[str, Any] | None = None,
        *,
        caller: Caller | None = None,
    ) -> Envelope:
        """Call a tool as a model does, or as another caller."""
        return await self.invoker.call(
            self.next_call(tool_id, input), caller or self.model, self.ledger
        )

    def next_call(self, tool_id: str, input: Mapping[str, Any] | None = None) -> Call:
        """Return the next call of a tool with this input, with its path in the task."""
        arguments = dict(input or {})
        return Call(self._seen.path(tool_id, arguments), tool_id, arguments)

    async def answer(self, body: Mapping[str, Any]) -> None:
        """Answer the oldest open question."""
        question = self.questions[0]
        answer, problems = check_answer(question, body, JSON_DEPTH)
        if problems:
            raise InvalidAnswer(problems)
        answered = QuestionAnswered(
            question_id=question.question_id,
            status=QuestionStatus.ANSWERED,
            answer=answer,
            by=LOCAL,
        )
        await self._send(answered)

    async def cancel(self) -> None:
        """Request the cancellation of the task."""
        await self._send(CancelRequested(by=LOCAL))

    @property
    def questions(self) -> list[Question]:
        """The open questions, oldest first."""
        return list(self.ledger.task.waits.waiting.values())

    async def events(self) -> list[Event]:
        """Return every event of the task."""
        await self.ledger.held.commit()
        return [record.event for record in await self.log.read(LogId(self._task_id))]

    async def settled(self) -> list[CallSettled]:
        """Return every outcome, in the order of the log."""
        return [event for event in await self.events() if isinstance(event, CallSettled)]

    def invocation(self, tool: Tool, input: Mapping[str, Any] | None = None) -> Invocation:
        """Return the invocation of a tool, to call its `run` without the Invoker."""
        deadline = self.world.clock.monotonic() + _PLENTY
        return Invocation(
            self.next_call(tool.spec.tool_id, input),
            tool.spec,
            self.model,
            ledger=self.ledger,
            edition=dataclasses.replace(
                self.invoker.edition, resources=self.resources, world=self.world
            ),
            attempt=Attempt(NestedCalls(None), deadline=deadline),
        )

    async def _send(self, event: Event) -> None:
        await self.ledger.held.commit()
        await self.log.send(LogId(self._task_id), [Entry(event, self._task_id)])
        await self.ledger.held.refresh()


async def open_workbench(
    *tools: Tool,
    rules: Iterable[Rule] = (),
    clock: Clock | None = None,
    limits: Limits | None = None,
    **reached: Any,
) -> Workbench:
    """Return a workbench with these tools and a started task.

    `reached` are further members of Resources, such as `egress` and `vault`.
    """
    world = World(clock or FakeClock(), limits or Limits(), new_id)
    bench = Workbench(tools, rules, world, reached)
    await bench.begin()
    return bench


async def invocation_for(tool: Tool, *others: Tool) -> Invocation:
    """Return an invocation for `await tool.run(input, invocation)`.

    `others` are the tools that it may call.
    """
    return (await open_workbench(tool, *others)).invocation(tool)
