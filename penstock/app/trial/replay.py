"""A replay: a recorded task runs again in memory, and its first difference is reported.

Guarantees: no event is written, no write runs, and without `live` no tool and no model is asked.

How it works. The bodies of tasks, the agent loop, the invoker and the rules are those of the
project, assembled once more around three parts that answer from the record. `ReplayLog` compares
each event and applies the recorded one (see there). `_RecordedModel` compares what decides a
request and gives the recorded reply. `_RecordedTool` wraps each tool: the call passes every step of
the invoker, and then gets its recorded outcome. Scripts and agents that are tools are entered
again; what happens inside them is answered the same way. Tasks that the task requested have logs of
their own: each is replayed after it, and the difference that was recorded first is the first one.

Limits: the log has no text of system prompts and no schemas of tools. That a prompt or an offer is
the same follows from the digest of the agent and from the ids that were offered
(docs/decisions/104). Shown by tests/app/trial/test_replay.py.
"""

import math
from contextlib import suppress
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import fields, replace

from penstock.agents.definition.noted import definitions_at
from penstock.app.runtime import Runtime
from penstock.app.trial.definitions import Definitions
from penstock.app.trial.recorded_events import RecordedEvents, ReplayClock
from penstock.app.trial.replay_answers import Answers
from penstock.app.trial.replay_log import ReplayLog
from penstock.app.trial.replay_parts import ReplayAssembly
from penstock.app.trial.saved_task import SavedTask
from penstock.chat.recorded.replay_report import ReplayOptions, ReplayReport
from penstock.core.call_errors import BudgetExceeded, ToolNotFound
from penstock.core.envelope import Json
from penstock.core.errors import (
    Blocked,
    Cancel,
    ConfigError,
    InvalidRequest,
    TaskRunning,
    TextErased,
)
from penstock.core.events.child_events import ChildrenSpawned
from penstock.core.events.events import CancelRequested, TaskResumed, TaskStarted
from penstock.core.events.history_events import Erased, MessagesErased
from penstock.core.ids import TaskId, new_id
from penstock.core.json_values.schema import Schema
from penstock.core.limits import World
from penstock.core.profile import Profile
from penstock.core.task import TaskRecord
from penstock.engine.session_state import fold


class _ToolChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """The parts of a tool that a replay can change, with their types."""

    description: str = ""
    """The description that the model reads."""
    input_schema: dict[str, Any] = {}
    """JSON Schema that inputs must fit."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema that outputs must fit; None accepts any."""
    requires_approval: bool | dict[str, Any] = False
    """Whether a person must approve a call, or the schema of the inputs that need one."""
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] = 1
    """Milliseconds, at most a day. No recorded call takes time, but those of `live` do."""
    requires_permissions: frozenset[str] = frozenset()
    """Permissions that the profile of the task must hold."""


async def replay(
    runtime: Runtime, task_id: str, options: ReplayOptions, profile: Profile
) -> ReplayReport:
    """Run a task of a profile again, and report the first difference.

    Raises NotFound; TaskRunning if it has not ended; TextErased if a text of it was erased;
    ConfigError for changes that do not exist.
    """
    return await replay_saved(runtime, await recorded(runtime, task_id, profile), options)


async def recorded(runtime: Runtime, task_id: str, profile: Profile) -> SavedTask:
    """Return a task of a profile that has ended, with its log and children. Raises as `replay`."""
    task = await runtime.requests.inbox.task(TaskId(task_id), profile)
    if not task.status.is_final:
        raise TaskRunning(f"the task {task_id} is {task.status.value}: replay it when it has ended")
    saved = await _read(runtime, task)
    if saved is None:
        raise TextErased("a text of this task was erased, so it cannot be replayed")
    return saved


async def _read(runtime: Runtime, task: TaskRecord) -> SavedTask | None:
    """Return a task with its children; None if a text of it was erased."""
    storage = runtime.parts.storage
    records = await storage.log.read(task.log_id, limit=task.ended_seq)
    if not records or any(isinstance(each.event, Erased | MessagesErased) for each in records):
        return None
    own = (each.event for each in records if each.task_id == task.task_id)
    ids = [child for each in own if isinstance(each, ChildrenSpawned) for child in each.children]
    children, absent = list[SavedTask](), list[TaskId]()
    for child_id in ids:
        child = await storage.projections.find_task(child_id)
        is_ended = child is not None and child.status.is_final
        saved = await _read(runtime, child) if child is not None and is_ended else None
        if saved is None:
            absent.append(child_id)
        else:
            children.append(saved)
    started = [each for each in records if each.task_id == task.task_id]
    return SavedTask(
        task_id=task.task_id,
        records=records,
        definitions=definitions_at(storage.folder, started),
        children=children,
        absent=absent,
    )


async def replay_saved(runtime: Runtime, task: SavedTask, options: ReplayOptions) -> ReplayReport:
    """Replay a task whose log, up to its end, is given, and its children. Raises ConfigError."""
    _check(runtime, options)
    _check_until(task, options.until)
    first = _replay_of(runtime, task, options)
    report = await first.report()
    if options.until is not None:  # names an event of the task itself
        return report
    warnings, found, found_at = [*report.warnings], report.difference, first.log.found_at
    compared, total = report.compared_events, report.total_events
    # Its children are compared, never continued: the real replies of two tasks would mix.
    alone = replace(options, live=False, changes=replace(options.changes, model=None))
    waiting = [task]
    for each in waiting:  # grows while it is read: children of children
        warnings += [f"{child} was erased, or has not ended: not compared" for child in each.absent]
        waiting += each.children
        for child in each.children:
            below = _replay_of(runtime, child, alone, shown=f"child/{child.task_id}")
            if below.was_out_of_budget:
                warnings.append(f"the budget of its tree ended {child.task_id}: not compared")
                continue
            of_child = await below.report()
            compared, total = compared + of_child.compared_events, total + of_child.total_events
            warnings += of_child.warnings
            if below.log.found_at is not None and below.log.found_at < (found_at or math.inf):
                found, found_at = of_child.difference, below.log.found_at
    return replace(
        report,
        compared_events=compared,
        total_events=total,
        stopped=report.stopped if found is report.difference else "difference",
        difference=found,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _replay_of(
    runtime: Runtime, task: SavedTask, options: ReplayOptions, *, shown: str = "task"
) -> "_Replay":
    key = runtime.parts.storage.key
    is_foreign = task.is_foreign(key)
    task = task.rekeyed(key) if is_foreign else task
    return _Replay(runtime, task, options, shown=shown, is_foreign=is_foreign)


def _check(runtime: Runtime, options: ReplayOptions) -> None:
    """Raise ConfigError for changes that fit nothing."""
    changes = options.changes
    if changes.model is not None and not options.live:
        raise ConfigError("another model is asked only with live=True (--live)")
    registry = runtime.parts.tools.invoker.registry
    for tool_id, part in changes.tools.items():
        try:
            registry.get(tool_id)
        except ToolNotFound as error:
            raise ConfigError(f"the tool cannot be changed: {error}") from None
        _check_parts(tool_id, part)


def _check_until(task: SavedTask, until: int | None) -> None:
    """Raise InvalidRequest for a last event that the task does not have."""
    own = [each.seq for each in task.records if each.task_id == task.task_id]
    if until is not None and own and not own[0] <= until <= own[-1]:
        issue = f"is not an event of this task, which has events from {own[0]} to {own[-1]}"
        raise InvalidRequest([{"field": "/until", "issue": issue}])


def _check_parts(tool_id: str, part: Json) -> None:
    """Raise ConfigError for parts of a tool that a replay cannot change, or not like this."""
    names = [each.name for each in fields(_ToolChanges)]
    if unknown := sorted(set(part) - set(names)):
        known = ", ".join(sorted(names))
        raise ConfigError(f"{tool_id}: {unknown[0]!r} cannot be changed; these can: {known}")
    try:
        convert(part, _ToolChanges)
        for name in ("input_schema", "output_schema", "requires_approval"):
            if isinstance(schema := part.get(name), dict):
                Schema(schema)
    except (ValidationError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{tool_id} cannot be changed like this: {error}") from None


class _Replay:
    """One replay of one task."""

    def __init__(
        self,
        runtime: Runtime,
        task: SavedTask,
        options: ReplayOptions,
        *,
        shown: str,
        is_foreign: bool,
    ) -> None:
        noted = Definitions(task.definitions, runtime.parts, runtime.local)
        record = RecordedEvents(task.records, task.task_id, noted, shown)
        parts, self.record = runtime.parts, record
        self.clock = clock = ReplayClock()
        world = World(clock, parts.world.limits, new_id)
        state = fold(record.own[0].log_id, record.before)
        until = options.until
        store = parts.storage.log
        self.log = ReplayLog(record, store, state, world, clock=clock, until=until)
        self.answers = Answers(record, self.log, options, is_foreign=is_foreign)
        self.assembly = ReplayAssembly(self.answers, parts, world, task.outputs)

    @property
    def was_out_of_budget(self) -> bool:
        """Whether a child ended because its tree had used up the budget of the root."""
        ended = self.record.ended
        error = None if ended is None else ended.error
        return error is not None and error.code == BudgetExceeded.code

    async def report(self) -> ReplayReport:
        """Run the task to its first difference or its end."""
        record, log = self.record, self.log
        if record.before:
            self.clock.move(record.before[-1].at)
        if record.start is not None:
            with suppress(Cancel):
                await self._run()
        self._warn_of_missing_tools()
        return ReplayReport(
            task_id=record.task_id,
            compared_events=record.compared,
            total_events=record.total,
            up_to_seq=record.up_to,
            stopped=log.stopped,
            difference=log.found,
            later=tuple(log.later),
            usage=self.answers.usage,
            warnings=tuple(self.answers.warnings),
        )

    async def _run(self) -> None:
        log, task_id = self.log, self.record.task_id
        task = log.state.queue.get(task_id)
        if task is None:
            self.answers.warnings.append("the event that requested the task is not in the log")
            return
        while True:
            try:
                await self.assembly.work.work(log, task)
            except Blocked as blocked:
                names = ", ".join(each.id for each in blocked.blocked_on)
                raise log.differ("code", f"the project lacks {names}", None, path=task_id) from None
            if log.is_over or task.is_ended:
                return
            arrival = self.record.arrival()
            joins = task.waits.joins.values()
            if arrival is None and joins and not (log.is_live or self.record.was_cut):
                names = ", ".join(run for join in joins for run in join.runs)
                message = f"the task {names} would be awaited now"
                raise log.differ("code", message, None, path=task_id)
            if arrival is None or isinstance(arrival.event, CancelRequested) or log.is_live:
                return  # from here on a person decided
            log.check_until(arrival)
            log.apply(arrival)
            log.add(TaskResumed(), task_id)

    def _warn_of_missing_tools(self) -> None:
        """Warn of tools that the task was offered and that are gone."""
        found, agent = self.log.found, self.log.state.agents.newest
        if found is not None and found.kind == "tools":
            return
        started = (each.event for each in self.record.own if isinstance(each.event, TaskStarted))
        for name in next((each.offered for each in started), ()):
            if not self.assembly.knows(agent, name):
                warning = f'tool "{name}" is no longer in the project; not reached'
                self.answers.warnings.append(warning)
