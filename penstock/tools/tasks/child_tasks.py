"""Child tasks of a call: request them, wait for them, and cancel them.

Guarantees: a call that runs again finds the children that it requested, and creates none twice; a
task that waits for others holds no worker, and continues once enough of them have ended.

How: the id of a child is derived from its parent and its key, or from the call and its number in a
batch (`Ledger.idempotency_key`). ChildrenSpawned is committed before the children are created, so
the end of the parent cancels children of a crashed call, too. To create a child again is harmless:
the store refuses a second log of its name. A call that waits adds a Join to its task and suspends;
the end of each task arrives as RunEnded, and the fold resumes the task when the Join is met.

A function that runs again after a crash must not look as if it crashed at its own work while it
was in here (decision 003): a started mark at the place of the operation represents it, and is
settled on disk before the function continues. Proof: tests/tools/tasks/test_child_tasks.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.call_errors import DepthExceeded, ToolFailed, ToolNotConfigured, tool_failure
from penstock.core.envelope import Envelope
from penstock.core.errors import SessionBusy, Signal
from penstock.core.events.child_events import ChildrenSpawned, ChildRequested, Join
from penstock.core.events.events import CallSettled, CallStarted
from penstock.core.ids import LogId, TaskId
from penstock.core.task import MissingKind, TaskRecord, TaskStatus
from penstock.engine.budget import Trees
from penstock.engine.suspend import await_tasks
from penstock.tools.invocation import Invocation
from penstock.tools.resources import Children
from penstock.tools.tasks.child_forms import NewChild, Outcome, checked, digest_of, outcome_of

WAIT = "task.wait"
"""The name of a wait that has started, in the log."""


class Spawner:
    """The child tasks of the task to which a call belongs."""

    __slots__ = ("_invocation", "_ledger")

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._ledger = invocation.ledger

    @property
    def port(self) -> Children:
        """The tasks of the runtime. Raises ToolNotConfigured."""
        port = self._invocation.edition.resources.callbacks.children
        if port is None:
            raise ToolNotConfigured("this runtime has no child tasks")
        return port

    async def spawn(self, new: NewChild) -> TaskRecord:
        """Request a child with a key, or find the one that has it.

        Raises TypeError (other arguments under the key), ToolFailed, NotPermitted, DepthExceeded.
        """
        task, held = self._ledger.task, self._ledger.held
        # The request is made first, also for a known key: its hash has to fit.
        child = self._below(checked(new))
        digest = digest_of(child)
        child_id, known = task.waits.spawned.get(new.key, (self._id_of(new.key), digest))
        # Compared before anything is looked up: a slip of the author must not depend on timing.
        if known != digest:
            raise TypeError(f'task "{new.key}" was spawned with other arguments')
        if (found := (await self._find([child_id]))[0]) is not None:
            await self._attend(child_id, child)
            return found
        await self._check_dependencies(child)
        self.port.check(child, self._invocation.caller)
        # Before the child exists: if the process dies in between, the end of this task cancels it.
        if child_id not in task.waits.children:
            spawned = ChildrenSpawned(children=(child_id,), key=new.key, digest=digest)
            self._ledger.add(spawned, self._invocation.call.path)
        await held.commit()
        await self._create([(child_id, child)])
        await self._attend(child_id, child)
        return (await self.look([child_id]))[0]

    async def spawn_all(self, path: CallPath, new: Sequence[NewChild]) -> tuple[str, list[TaskId]]:
        """Request the children of a batch. `path` identifies it. Raises as `spawn`."""
        batch_id = f"batch_{self._ledger.idempotency_key(path)}"
        keys = [CallPath(f"{path}/{number}") for number in range(len(new))]
        ids = [TaskId(f"task_{self._ledger.idempotency_key(key)}") for key in keys]
        children = [replace(self._below(checked(each)), batch_id=batch_id) for each in new]
        for child in children:
            self.port.check(child, self._invocation.caller)
        if ids[0] not in self._ledger.task.waits.children:
            spawned = ChildrenSpawned(children=tuple(ids), batch_id=batch_id)
            self._ledger.add(spawned, self._invocation.call.path)
        await self._ledger.held.commit()
        await self._create([*zip(ids, children, strict=True)])
        return batch_id, ids

    async def wait(self, join: Join) -> list[Outcome]:
        """Return the outcomes of tasks once enough have ended. Raises Suspend until then."""
        waits = self._ledger.task.waits
        records = await self.look(join.runs)
        if not join.is_met(waits.ended_runs):
            await self._check_cycles(records)
            state = self._ledger.held.state
            for record in records:
                if record.task_id not in waits.children:
                    await self.port.attend(record.task_id, self._ledger.task.task_id, state.log_id)
            # An end that `attend` reported may have gone into this log: read it before parking.
            await self._ledger.held.refresh()
        try:
            if not join.is_met(waits.ended_runs):
                self.mark(join.path, WAIT)
            await_tasks(self._ledger, join)
        except Signal as signal:
            self._invocation.signal = signal
            raise
        if self._trees is not None:  # they may have worked in another process
            await self._trees.load(self._ledger.task)
        return await self.outcomes(join.runs)

    async def outcomes(self, task_ids: Sequence[TaskId]) -> list[Outcome]:
        """Return how tasks ended, or their statuses. Raises ToolFailed as `look`."""
        return [outcome_of(record) for record in await self.look(task_ids)]

    async def continued(self, path: CallPath) -> None:
        """Write the settled wait to disk before the function continues, if a crash would matter."""
        if self._invocation.spec.is_ambiguous_when_cut:
            await self._ledger.held.commit()
            await self._ledger.held.make_sure()

    def first_ended(self, runs: Sequence[TaskId], *, needs_success: bool) -> TaskId:
        """Return the task among these whose end is first in the log."""
        ended = self._ledger.task.waits.ended_runs
        mine = [run for run in ended if run in runs]
        good = [run for run in mine if ended[run] is TaskStatus.SUCCEEDED]
        return (good if needs_success and good else mine)[0]

    async def look(self, task_ids: Sequence[TaskId]) -> list[TaskRecord]:
        """Return tasks of the profile. Raises ToolFailed with the reason no_such_task."""
        found: list[TaskRecord] = []
        for task_id, record in zip(task_ids, await self._find(task_ids), strict=True):
            if record is None:
                raise tool_failure("no_such_task", f"there is no task {task_id!r}")
            found.append(record)
        return found

    async def cancel(self, task_id: TaskId) -> tuple[TaskRecord, list[TaskId]]:
        """Cancel a task of this tree and everything that it spawned, deepest first."""
        record = (await self.look([task_id]))[0]
        if record.root_id != self._root()[0]:
            message = f"the task {task_id!r} was not spawned in this tree of tasks"
            raise tool_failure("no_such_task", message)
        cancelled = await self.port.cancel(task_id, self._invocation.caller.profile)
        return (await self.look([task_id]))[0], cancelled

    def _id_of(self, key: str) -> TaskId:
        task_id = self._ledger.task.task_id
        return TaskId(f"task_{self._ledger.idempotency_key(CallPath(f'{task_id}/spawn/{key}'))}")

    @property
    def _trees(self) -> Trees | None:
        """The budgets of trees, if the task is a root; a child joins its tree when it starts."""
        return None if self._root()[1] else self._ledger.held.trees

    def _root(self) -> tuple[TaskId, ChildRequested | None]:
        brief = self._ledger.task.brief
        if isinstance(brief, ChildRequested):
            return brief.root, brief
        return self._ledger.task.task_id, None

    def _below(self, new: NewChild) -> ChildRequested:
        """Return the request of a task below this one. Raises DepthExceeded."""
        child, most = self.described(new), self._invocation.edition.world.limits.child_depth
        if child.depth > most:
            raise DepthExceeded(f"tasks are nested more than {most} deep (limits.child_depth)")
        return child

    def described(self, new: NewChild) -> ChildRequested:
        """Return what a call says about a child, with its place in the tree."""
        ledger, caller = self._ledger, self._invocation.caller
        state, (root, above) = ledger.held.state, self._root()
        depth = 1 + (above.depth if above else 0)
        shown = caller.secrets.json({"title": new.title, "objective": new.objective})
        return ChildRequested(
            profile_id=caller.profile.profile_id,
            permissions=caller.profile.noted,
            agent=caller.agent,
            parent=ledger.task.task_id,
            parent_log=state.log_id,
            root=root,
            root_log=above.root_log if above else state.log_id,
            session=state.session_id,
            depth=depth,
            title=shown["title"],
            objective=shown["objective"],
            input=caller.secrets.json(new.input),
            key=new.key,
            worker_kind=new.worker_kind,
            output_schema=new.output_schema,
            selected_skills=new.selected_skills,
            allowed_tools=new.allowed_tools,
            max_turns=new.max_turns,
            dependencies=new.dependencies,
            any=new.any,
            needs_success=new.needs_success,
            working_for=caller.working_for,
            is_autonomous=bool(caller.silence),
        )

    async def _find(self, task_ids: Sequence[TaskId]) -> list[TaskRecord | None]:
        return await self.port.find(task_ids, self._invocation.caller.profile)

    async def _create(self, children: Sequence[tuple[TaskId, ChildRequested]]) -> None:
        ledger = self._ledger
        if (trees := self._trees) is not None and not trees.bind(ledger.task, ledger.budget):
            await trees.load(ledger.task)
            trees.bind(ledger.task, ledger.budget)
        try:
            await self.port.create(children)
        except SessionBusy as error:
            raise tool_failure("too_many_children", str(error)) from None

    async def _attend(self, child_id: TaskId, child: ChildRequested) -> None:
        """Report the ends of its dependencies to a child."""
        for dependency in child.dependencies:
            await self.port.attend(dependency.task_id, child_id, LogId(child_id))

    async def _check_dependencies(self, child: ChildRequested) -> None:
        """Raise ToolFailed for an unknown dependency, and for one above the child: a cycle."""
        records = await self.look([each.task_id for each in child.dependencies])
        path: list[TaskId] = [child.parent]
        above: TaskId | None = child.parent
        while above is not None and records:
            for record in records:
                if record.task_id == above:
                    raise _cycle([*path, above])
            found = (await self._find([above]))[0]
            above = None if found is None else found.parent_id
            if above is not None:
                path.append(above)

    async def _check_cycles(self, records: Iterable[TaskRecord]) -> None:
        """Raise ToolFailed if one of these tasks waits, perhaps over others, for this one."""
        own, waiting, seen = self._ledger.task.task_id, [*records], dict[TaskId, TaskId | None]()
        seen.update((each.task_id, None) for each in waiting)
        while waiting:
            record = waiting.pop()
            awaited = [each.id for each in record.blocked_on if each.kind is MissingKind.TASK]
            if record.task_id == own or own in awaited:
                raise _cycle(_path_to(record.task_id, own, seen))
            new = [TaskId(each) for each in awaited if each not in seen]
            seen.update((each, record.task_id) for each in new)
            waiting += [each for each in await self._find(new) if each is not None]

    def mark(self, path: CallPath, name: str) -> None:
        """Record that the function is inside this operation, and does not work itself."""
        if self._invocation.spec.is_ambiguous_when_cut:
            key = self._ledger.idempotency_key(path)
            self._ledger.add(CallStarted(tool_id=name, idempotency_key=key), path)

    def settle(self, path: CallPath, name: str, value: Any) -> CallSettled:
        """Record the result of an operation, for later entries of the call."""
        return self._invocation.record(path, name, Envelope.success(value))


def _cycle(path: Sequence[TaskId]) -> ToolFailed:
    shown = " -> ".join(path)
    message = f"these tasks would wait for each other without end: {shown}"
    return ToolFailed(message, details={"reason": "cycle", "path": list(path)})


def _path_to(last: TaskId, own: TaskId, seen: Mapping[TaskId, TaskId | None]) -> Sequence[TaskId]:
    """Return the tasks from the own one to the one that waits for it, and the own one again."""
    path = [] if last == own else [last]
    above = seen.get(last)
    while above is not None:
        path.insert(0, above)
        above = seen.get(above)
    return [own, *path, own]
