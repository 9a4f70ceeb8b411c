"""A replay: a recorded task runs again in memory, and its first difference is reported.

Guarantees: no event is written, no write runs, and without `live` no tool and no model is asked.

How it works. The bodies of tasks, the agent loop, the invoker and the rules are those of the
project, assembled once more around three parts that answer from the record. `ReplayLog` compares
each event and applies the recorded one (see there). `_RecordedModel` compares what decides a
request and gives the recorded reply. `_RecordedTool` wraps each tool: the call passes every step of
the invoker, and then gets its recorded outcome. Scripts and agents that are tools are entered
again; what happens inside them is answered the same way.

Limits: the log has no text of system prompts and no schemas of tools. That a prompt or an offer is
the same follows from the digest of the agent and from the ids that were offered
(docs/decisions/104). Shown by tests/app/trial/test_replay.py.
"""

from contextlib import suppress

from penstock.app.runtime import Runtime
from penstock.app.trial.recorded_task import RecordedTask, ReplayClock
from penstock.app.trial.replay_answers import Answers
from penstock.app.trial.replay_log import ReplayLog
from penstock.app.trial.replay_parts import ReplayAssembly
from penstock.app.trial.saved_task import SavedTask
from penstock.chat.recorded.replay_report import ReplayOptions, ReplayReport
from penstock.core.errors import (
    Blocked,
    Cancel,
    ConfigError,
    TaskRunning,
    TextErased,
)
from penstock.core.events.events import CancelRequested, TaskResumed, TaskStarted
from penstock.core.events.history_events import Erased, MessagesErased
from penstock.core.ids import TaskId, new_id
from penstock.core.limits import World
from penstock.core.profile import Profile
from penstock.engine.session_state import fold

_TOOL_CHANGES = {
    *("description", "input_schema", "output_schema", "requires_approval", "timeout_ms"),
    *("requires_permissions",),
}


async def replay(
    runtime: Runtime, task_id: str, options: ReplayOptions, profile: Profile
) -> ReplayReport:
    """Run a task of a profile again, and report the first difference.

    Raises NotFound; TaskRunning if it has not ended; TextErased if a text of it was erased;
    ConfigError for changes that do not exist.
    """
    return await replay_saved(runtime, await recorded(runtime, task_id, profile), options)


async def recorded(runtime: Runtime, task_id: str, profile: Profile) -> SavedTask:
    """Return a task of a profile that has ended, with its log. Raises as `replay`."""
    task = await runtime.requests.inbox.task(TaskId(task_id), profile)
    if not task.status.is_final:
        raise TaskRunning(f"the task {task_id} is {task.status.value}: replay it when it has ended")
    records = await runtime.parts.storage.log.read(task.log_id, limit=task.ended_seq)
    if any(isinstance(each.event, Erased | MessagesErased) for each in records):
        raise TextErased("a text of this task was erased, so it cannot be replayed")
    return SavedTask(task_id=task.task_id, records=records)


async def replay_saved(runtime: Runtime, task: SavedTask, options: ReplayOptions) -> ReplayReport:
    """Replay a task whose log, up to its end, is given. Raises ConfigError."""
    _check(runtime, options)
    key = runtime.parts.storage.key
    is_foreign = task.is_foreign(key)
    task = task.rekeyed(key) if is_foreign else task
    return await _Replay(runtime, task, options, is_foreign=is_foreign).report()


def _check(runtime: Runtime, options: ReplayOptions) -> None:
    """Raise ConfigError for changes that fit nothing."""
    changes = options.changes
    if changes.model is not None and not options.live:
        raise ConfigError("another model is asked only with live=True (--live)")
    registry = runtime.parts.tools.invoker.registry
    for tool_id, part in changes.tools.items():
        registry.get(tool_id)
        if unknown := sorted(set(part) - _TOOL_CHANGES):
            known = ", ".join(sorted(_TOOL_CHANGES))
            raise ConfigError(f"{tool_id}: {unknown[0]!r} cannot be changed; these can: {known}")


class _Replay:
    """One replay of one task."""

    def __init__(
        self, runtime: Runtime, task: SavedTask, options: ReplayOptions, *, is_foreign: bool
    ) -> None:
        record = RecordedTask(task.records, task.task_id)
        parts, self.record = runtime.parts, record
        self.clock = clock = ReplayClock()
        world = World(clock, parts.world.limits, new_id)
        state = fold(record.own[0].log_id, record.before)
        until = options.until
        self.log = ReplayLog(record, parts.storage.log, state, world, clock=clock, until=until)
        self.answers = Answers(record, self.log, options, is_foreign=is_foreign)
        self.assembly = ReplayAssembly(self.answers, parts, world, task.outputs)

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
