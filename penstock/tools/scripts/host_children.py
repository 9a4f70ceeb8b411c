"""The calls of `flo.task` for child tasks: spawn, wait, batches, cancel.

Each is recorded under its place, so a later entry gets the same children and the same results. What
a wait returned under its key is also a value of the task: every later wait with that key gets it,
in other calls, too. A batch is a value of the task as well, under its id. Proof:
tests/tools/scripts/test_host_children.py and tests/journeys/test_script_children.py.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from penstock.core.call import CallPath, Effect
from penstock.core.call_errors import CallError, ToolFailed, ToolTimeout, tool_failure
from penstock.core.clock import to_iso
from penstock.core.envelope import Json
from penstock.core.events.child_events import Dependency, Join
from penstock.core.events.events import StateWritten
from penstock.core.ids import TaskId
from penstock.core.json_values.json_text import canonical
from penstock.core.task import TaskStatus
from penstock.engine.task_state import TaskState
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.arguments import ScriptSchema, items, optional_number, text
from penstock.tools.scripts.host import Answer
from penstock.tools.scripts.recording import Recording
from penstock.tools.tasks.child_forms import (
    KEY_CHARACTERS,
    MAX_CHILDREN,
    TITLE_CHARACTERS,
    TURNS,
    WORKERS,
    NewChild,
    Outcome,
    check_dependencies,
)
from penstock.tools.tasks.child_tasks import Spawner
from penstock.tools.tasks.task_values import ALWAYS, TaskValues

WAIT_FOR_BATCH = "task.waitForBatch"
WAITS, BATCHES = "task.waitForDependencies", "task.batch"
"""Partitions of the values of a task: frozen results by key, and batches by id."""
Work = Callable[[CallPath], Awaitable[Json]]


class ChildCalls:
    """The functions of `flo.task` about other tasks."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording
        self._tasks = Spawner(invocation)
        self._values = TaskValues(invocation.ledger, invocation.edition.world.clock)

    def spawn(self, arguments: Any) -> Answer:
        """Request a child with a key."""
        new = _new_child(arguments)

        async def spawned(_: CallPath) -> Json:
            record = await self._tasks.spawn(new)
            return {"task_id": record.task_id, "key": new.key, "status": record.status.value}

        return self._once("task.spawn", arguments, spawned)

    def spawn_children(self, arguments: Any) -> Answer:
        """Request the children of a batch, all or none."""
        children = items(arguments, "children")
        if not children:
            raise TypeError("children must have at least one child")
        if len(children) > MAX_CHILDREN:
            found = f"found {len(children)}: request them in groups"
            message = f"one call requests at most {MAX_CHILDREN} children, {found}"
            raise tool_failure("too_many_children", message)
        new = [_at(f"children[{place}]", child) for place, child in enumerate(children)]

        async def spawned(path: CallPath) -> Json:
            batch_id, ids = await self._tasks.spawn_all(path, new)
            batch = self._batch(batch_id, ids, new)
            self._put(BATCHES, batch_id, batch)
            event = {"event_type": "children_spawned", "batch_id": batch_id}
            return {"batch": batch, "event": {**event, "at": batch["created_at"]}}

        return self._once("task.spawnChildren", arguments, spawned)

    def wait_for_batch(self, arguments: Any) -> Answer:
        """Wait until all children of a batch have ended."""
        batch_id = text(arguments, "batch_id", most=KEY_CHARACTERS)

        async def waited(path: CallPath) -> Json:
            batch = self._find_batch(batch_id)
            outcomes = await self._tasks.wait(Join(path, _ids(batch)))
            # Consumed once its results are known, and not when the wait begins: a crash repeats it.
            batch |= {"consumed": True, "updated_at": self._now()}
            self._put(BATCHES, batch_id, batch)
            return _results(batch, outcomes)

        return self._once(WAIT_FOR_BATCH, arguments, waited)

    def batch_results(self, arguments: Any) -> Answer:
        """Return the results of a batch whose children have ended."""
        batch_id = text(arguments, "batch_id", most=KEY_CHARACTERS)

        async def looked(_: CallPath) -> Json:
            batch = self._find_batch(batch_id)
            outcomes = await self._tasks.outcomes(_ids(batch))
            done = sum(each.status.is_final for each in outcomes)
            if done < len(outcomes):
                details = {"reason": "pending", "done": done, "total": len(outcomes)}
                message = f"{done} of {len(outcomes)} children of {batch_id} have ended"
                raise ToolFailed(message, details=details)
            return _results(batch, outcomes)

        return self._once("task.getBatchResults", arguments, looked)

    def wait_for_dependencies(self, arguments: Any) -> Answer:
        """Wait until tasks have ended; the result is frozen under its key."""
        key, dependencies = text(arguments, "key", most=KEY_CHARACTERS), _dependencies(arguments)
        is_any = _choice(arguments, "condition", ("all", "any")) == "any"
        needs_success = _needs_success(arguments)
        if not dependencies:
            raise TypeError("dependencies must have at least one task")

        async def waited(path: CallPath) -> Json:
            # Looked up at the time of the wait: another call may have waited under the key since.
            frozen = self._values.find(WAITS, key)
            if frozen is not None:
                if canonical(frozen.value["arguments"]) != canonical(arguments):
                    raise TypeError(f'wait "{key}" was used with other arguments')
                return _unless_failed(frozen.value)
            runs = tuple(each.task_id for each in dependencies)
            outcomes = await self._tasks.wait(Join(path, runs, is_any, is_any and needs_success))
            pairs = list(zip(dependencies, outcomes, strict=True))
            if is_any:
                first = self._tasks.first_ended(runs, needs_success=needs_success)
                pairs = [each for each in pairs if each[0].task_id == first]
            bad = [each for each in pairs if each[1].status is not TaskStatus.SUCCEEDED]
            result = {dep.alias: _dependency(dep.alias, outcome) for dep, outcome in pairs}
            value: dict[str, Any] = {"arguments": arguments, "result": result}
            if bad and needs_success:
                value |= {"failed": result[bad[0][0].alias]}
            self._put(WAITS, key, value)
            return _unless_failed(value)

        return self._once("task.waitForDependencies", arguments, waited)

    def cancel(self, arguments: Any) -> Answer:
        """Cancel a task and what it spawned."""
        task_id = TaskId(text(arguments, "task_id", most=KEY_CHARACTERS))

        async def cancelled(_: CallPath) -> Json:
            record, ended = await self._tasks.cancel(task_id)
            shown = {"task_id": record.task_id, "status": record.status.value}
            named = {"title": record.title, "key": record.task_key}
            return {"task": {**shown, **named}, "cancelled_task_ids": [*ended]}

        return self._once("task.cancel", arguments, cancelled)

    def _once(self, name: str, arguments: Any, work: Work) -> Answer:
        """Return the recorded result of a call, or that of `work`, which is recorded then."""
        self._invocation.check_running()
        path = self._recording.place(name, arguments, Effect.WRITE)
        if (recorded := self._recording.find(path)) is not None:
            return recorded
        return self._recording.live(path, self._made(path, name, work))

    async def _made(self, path: CallPath, name: str, work: Work) -> HostCallResult:
        try:
            return self._recording.settle(path, name, await work(path))
        except (CallError, TypeError) as error:
            return self._recording.refuse(path, name, error)

    def _now(self) -> str:
        return to_iso(self._invocation.edition.world.clock.now())

    def _put(self, partition: str, key: str, value: Json) -> None:
        written = self._values.write(partition, key, value, ttl=None, if_revision=ALWAYS)
        if isinstance(written, StateWritten):
            self._invocation.ledger.put(self._invocation.call.path, written)

    def _batch(self, batch_id: str, ids: Sequence[TaskId], new: Sequence[NewChild]) -> Json:
        now = self._now()
        children = [
            {
                "child_task_id": task_id,
                "worker_kind": child.worker_kind,
                "title": child.title,
                "objective": child.objective,
            }
            for task_id, child in zip(ids, new, strict=True)
        ]
        parent = self._invocation.ledger.task.task_id
        named = {"batch_id": batch_id, "parent_task_id": parent, "mode": "join_required"}
        secrets = self._invocation.caller.secrets
        shown = secrets.json(children)
        return {**named, "consumed": False, "children": shown, "created_at": now, "updated_at": now}

    def _find_batch(self, batch_id: str) -> dict[str, Any]:
        written = self._values.find(BATCHES, batch_id)
        if written is None:
            raise tool_failure("no_such_batch", f"this task has no batch {batch_id!r}")
        return dict(written.value)


def batch_of(task: TaskState, join: Join) -> str | None:
    """Return the id of the batch for which a call waited; None if it waited for other tasks."""
    if f"/{WAIT_FOR_BATCH}#" not in join.path:
        return None
    batches = (each.value for each in task.records.values.values() if each.tool_id == BATCHES)
    return next((each["batch_id"] for each in batches if _ids(each) == join.runs), None)


def _ids(batch: Json) -> tuple[TaskId, ...]:
    return tuple(TaskId(child["child_task_id"]) for child in batch["children"])


def _results(batch: Json, outcomes: Sequence[Outcome]) -> Json:
    results = [_child_result(each) for each in outcomes]
    return {"batch": batch, "results": results, "all_terminal": True}


def _child_result(outcome: Outcome) -> Json:
    status, code = outcome.status.value, (outcome.error or {}).get("code")
    if outcome.status is TaskStatus.SUCCEEDED:
        status = "completed"
    elif outcome.status is TaskStatus.FAILED and code == ToolTimeout.code:
        status = "timeout"
    named = {"child_task_id": outcome.task_id, "worker_kind": outcome.worker_kind}
    return {**named, "status": status, "output": outcome.output, **_ending(outcome)}


def _dependency(alias: str, outcome: Outcome) -> Json:
    named = {"task_id": outcome.task_id, "alias": alias, "status": outcome.status.value}
    if outcome.status is TaskStatus.SUCCEEDED:
        named |= {"output": outcome.output}
    return {**named, **_ending(outcome)}


def _ending(outcome: Outcome) -> Json:
    """Return the error and the time of an end, where they exist."""
    ending = {} if outcome.ended_at is None else {"completed_at": outcome.ended_at}
    has_failed = outcome.status.is_final and outcome.status is not TaskStatus.SUCCEEDED
    return {**ending, "error": outcome.message} if has_failed else ending


def _unless_failed(frozen: Json) -> Json:
    """Return the result of a wait. Raises ToolFailed if a task did not succeed that had to."""
    bad = frozen.get("failed")
    if bad is None:
        result: Json = frozen["result"]
        return result
    details = {name: bad[name] for name in ("alias", "task_id", "status")}
    raise ToolFailed(
        f'the task "{bad["alias"]}" {bad["status"]}: {bad.get("error", "")}',
        details={"reason": "dependency_failed", **details},
    )


def _new_child(arguments: Any) -> NewChild:
    schema, turns = (
        arguments.get("output_schema"),
        optional_number(arguments, "max_turns", 1, TURNS),
    )
    if schema is not None:
        ScriptSchema(schema)
    if (input_schema := arguments.get("input_schema")) is not None:
        problems = ScriptSchema(input_schema).problems(arguments.get("input"))
        if problems:
            raise TypeError(f"input is not valid: {'; '.join(map(str, problems))}")
    allowed = arguments.get("allowed_tools")
    return NewChild(
        key=text(arguments, "key", most=KEY_CHARACTERS),
        title=text(arguments, "title", most=TITLE_CHARACTERS),
        objective=text(arguments, "objective"),
        input=arguments.get("input"),
        output_schema=schema,
        selected_skills=_texts(arguments, "selected_skill_ids"),
        allowed_tools=None if allowed is None else _texts(arguments, "allowed_tools"),
        max_turns=None if turns is None else int(turns),
        dependencies=_dependencies(arguments),
        any=_choice(arguments, "dependency_condition", ("all", "any")) == "any",
        needs_success=_needs_success(arguments),
    )


def _at(place: str, child: Any) -> NewChild:
    """Return a child of a batch. Raises TypeError with its place."""
    if not isinstance(child, dict):
        raise TypeError(f"{place} must be an object")
    try:
        return worker(child)
    except TypeError as error:
        raise TypeError(f"{place}: {error}") from None


def worker(child: Any) -> NewChild:
    """Return a worker of a batch, or one that works in place. Raises TypeError."""
    return NewChild(
        worker_kind=_choice(child, "worker_kind", WORKERS, is_required=True),
        title=text(child, "title", most=TITLE_CHARACTERS),
        objective=text(child, "objective"),
        input=child.get("input"),
        selected_skills=_texts(child, "selected_skill_ids"),
    )


def _dependencies(arguments: Any) -> tuple[Dependency, ...]:
    found: list[Dependency] = []
    for place, each in enumerate(items(arguments, "dependencies")):
        if not isinstance(each, dict):
            raise TypeError(f"dependencies[{place}] must be an object")
        task_id, alias = text(each, "task_id", most=200), text(each, "alias", most=KEY_CHARACTERS)
        found.append(Dependency(TaskId(task_id), alias))
    check_dependencies(found)
    return tuple(found)


def _needs_success(arguments: Any) -> bool:
    policies = ("require_success", "all_settled")
    return _choice(arguments, "failure_policy", policies) == "require_success"


def _choice(arguments: Any, name: str, choices: Sequence[str], *, is_required: bool = False) -> str:
    """Return one of some texts; the first one if it is absent."""
    value = arguments.get(name)
    if value is None and not is_required:
        return choices[0]
    if value not in choices:
        raise TypeError(f"{name} must be one of {', '.join(choices)}")
    return str(value)


def _texts(arguments: Any, name: str) -> tuple[str, ...]:
    values = items(arguments, name)
    if not all(isinstance(each, str) and each for each in values):
        raise TypeError(f"{name} must be a list of texts")
    return tuple(values)
