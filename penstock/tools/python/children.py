"""Child tasks of Python tools: `ctx.spawn` requests one, `ctx.gather` waits for several.

A child is a task of its own: its agent works in a log of its own, also while the tool waits, and
over restarts. Both operations are recorded below the call, so a function that runs again gets the
same children and the same results. Proof: tests/tools/python/test_children.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.call_errors import ToolFailed
from penstock.core.errors import ConfigError
from penstock.core.events.child_events import Dependency, Join
from penstock.core.ids import TaskId
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.json_values.schema import Problem, Schema
from penstock.core.late import late
from penstock.core.task import TaskStatus
from penstock.core.text import cut, one_line
from penstock.tools.invocation import Invocation
from penstock.tools.outputs import given_json, own_copy
from penstock.tools.tasks.child_forms import NewChild, Outcome
from penstock.tools.tasks.child_tasks import Spawner

SPAWN, GATHER = "task.spawn", "task.gather"
_TITLE = 80
"""Characters of the objective that become the title."""


class ChildTask(Struct, frozen=True, kw_only=True):
    """A task that a tool requested, as `ctx.spawn` returns it.

    Example:
        >>> from penstock import ChildTask
        >>> ChildTask(task_id="task_1", key="prices").key
        'prices'
    """

    task_id: str
    """Its id, for `penstock tasks show` and the HTTP API."""
    key: str
    """Its name among the children of the task."""
    output: Any = None
    """The type of its output; None means text or any JSON."""


class ChildResult(Struct, frozen=True, kw_only=True):
    """How a child ended, as `ctx.gather(…, settled=True)` returns it.

    Example:
        >>> from penstock import ChildResult
        >>> ChildResult(task_id="task_1", status="succeeded", output=7).ok
        True
    """

    task_id: str
    """The child."""
    status: str
    """`succeeded`, `failed` or `cancelled`."""
    output: Any = None
    """Its output, if it succeeded."""
    error: str = ""
    """Why it has no output."""
    code: str = ""
    """The code of that error, such as `INVALID_OUTPUT`."""

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.status == "succeeded"


class ChildOptions(TypedDict, total=False):
    """The options of `ctx.spawn`.

    Example:
        >>> from penstock import ChildOptions
        >>> options: ChildOptions = {"key": "prices", "max_turns": 3}
    """

    key: str
    """Its name: the same key in one task is the same child. By default each call has its own."""
    title: str
    """A few words for people; by default the beginning of the objective."""
    input: Any
    """JSON, or a value of a type such as a dataclass, that the child reads beside its objective."""
    input_type: Any
    """A type, or a JSON Schema, that the input must fit: checked before the child is requested."""
    output: Any
    """A type, or a JSON Schema, that its output must fit."""
    tools: Sequence[str]
    """The only tools that its model is offered; by default those of its agent."""
    skills: Sequence[str]
    """Skills that are selected for it."""
    max_turns: int
    """Most replies of its model with calls, 1 to 50; by default as its agent."""
    after: Mapping[str, ChildTask | str]
    """Tasks that must end before it starts, by the names under which it reads their outputs."""
    condition: Literal["all", "any"]
    """How many of them."""
    settled: bool
    """Start even if they failed; by default the child then fails with DEPENDENCY_FAILED."""


class Spawning:
    """The part of a ToolContext that requests and awaits child tasks."""

    __slots__ = ()
    _invocation: Invocation

    async def spawn(self, objective: str, **options: Unpack[ChildOptions]) -> ChildTask:
        """Request a child task: the agent of this call works on it, in a task of its own.

        The child works in parallel, and survives a crash. It is cancelled if this task is cancelled
        or fails. A function that runs again gets the same child.

        Args:
            objective: What to do. The child sees nothing of this conversation.
            **options: Those of ChildOptions: `key`, `input`, `output`, `tools`, `after` and others.

        Returns:
            The child, for `gather` and for `after` of another one.

        Raises:
            TypeError: An option has a wrong type or size, the input does not fit its type, or the
                key had other arguments before.
            ToolFailed: A skill or a dependency is unknown, tasks would wait for each other, or the
                tree has too many tasks.
            NotPermitted: The child may not have one of the tools.
            DepthExceeded: Too many tasks are below each other.
        """
        invocation, tasks = self._invocation, Spawner(self._invocation)
        new, output = _new_child(objective, options)
        shape = [new.objective, new.key, new.input]
        path = invocation.place(SPAWN, shape, Effect.WRITE)
        settled = invocation.ledger.find(path)
        # From the whole path: equal calls of `spawn` in two calls of the tool are two children.
        key = new.key or invocation.ledger.idempotency_key(path)
        if settled is None:
            tasks.mark(path, SPAWN)
            record = await tasks.spawn(replace(new, key=key))
            settled = tasks.settle(path, SPAWN, {"task_id": record.task_id})
            await tasks.continued(path)
        return ChildTask(task_id=settled.envelope.output["task_id"], key=key, output=output)

    async def gather(self, *children: ChildTask, settled: bool = False) -> list[Any]:
        """Wait until all children have ended, and return their outputs in this order.

        The call waits without a thread or a process, and the function later runs again from its
        top. Outputs are frozen: a function that runs again gets the same.

        Args:
            *children: What `spawn` returned.
            settled: Return a ChildResult for each child, whether it succeeded or not.

        Returns:
            The outputs; with `settled` the results.

        Raises:
            ToolFailed: A child did not succeed. `details` has its task and status.
        """
        outcomes = await self._outcomes(children)
        results = [_result(*each) for each in zip(children, outcomes, strict=True)]
        if settled:
            return results
        for result in results:
            if not result.ok:
                details = {"reason": "dependency_failed", "task_id": result.task_id}
                raise ToolFailed(
                    f"the child task {result.task_id} {result.status}: {result.error}",
                    details={**details, "status": result.status, "code": result.code},
                )
        return [result.output for result in results]

    async def _outcomes(self, children: Sequence[ChildTask]) -> list[Outcome]:
        invocation, tasks = self._invocation, Spawner(self._invocation)
        runs = tuple(_id_of(each) for each in children)
        path = invocation.place(GATHER, list(runs), Effect.WRITE)
        settled = invocation.ledger.find(path)
        if settled is None or not settled.envelope.ok:
            outcomes = await tasks.wait(Join(path, runs))
            settled = tasks.settle(path, GATHER, [each.to_wire() for each in outcomes])
            await tasks.continued(path)
        return [Outcome.from_wire(each) for each in own_copy(settled.envelope.output)]


def _new_child(objective: str, options: ChildOptions) -> tuple[NewChild, Any]:
    """Return what a program says about a child, and the type of its output."""
    unknown = options.keys() - ChildOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"spawn has no option {', '.join(sorted(unknown))}")
    if not isinstance(objective, str):
        raise TypeError(f"objective must be a text, not {objective!r}")
    output = options.get("output")
    given = given_json(options.get("input"), JSON_DEPTH, "input")
    if problems := _input_problems(options.get("input_type"), given):
        raise TypeError(f"input is not valid: {'; '.join(map(str, problems))}")
    after = options.get("after", {})
    tools = options.get("tools")
    new = NewChild(
        objective=objective,
        title=options.get("title") or cut(one_line(objective), _TITLE),
        input=given,
        key=options.get("key", ""),
        output_schema=_schema_of(output),
        selected_skills=tuple(options.get("skills", ())),
        allowed_tools=None if tools is None else tuple(tools),
        max_turns=options.get("max_turns"),
        dependencies=tuple(Dependency(_id_of(task), name) for name, task in after.items()),
        any=options.get("condition", "all") == "any",
        needs_success=not options.get("settled", False),
    )
    return new, None if isinstance(output, dict) else output


def _input_problems(hint: Any, value: Any) -> Sequence[Problem]:
    """Return why an input does not fit its type or schema. Raises TypeError for what is neither."""
    if hint is None:
        return ()
    schema = _schema_of(hint)
    try:
        problems = Schema(schema or {}).problems(value)
    except (ValueError, RecursionError) as error:
        raise TypeError(f"input_type is not a JSON Schema (2020-12): {error}") from None
    if problems or isinstance(hint, dict):
        return problems
    # The validators of the type itself run last: they expect values of the right shape.
    read = _type_of(hint).read(value)
    is_misfit = isinstance(read, late("penstock.tools.python.signature:Misfit"))
    return read.problems if is_misfit else ()


def _schema_of(output: Any) -> dict[str, Any] | None:
    if output is None or isinstance(output, dict):
        return output
    try:
        return dict(_type_of(output).schema)
    except ConfigError as error:
        raise TypeError(str(error)) from None


def _type_of(hint: Any) -> Any:
    """Return the schema of a type, and its reader. Loaded late: it imports the context of tools."""
    return late("penstock.tools.python.output_type:OutputType")(hint)


def _id_of(task: ChildTask | str) -> TaskId:
    if not isinstance(task, ChildTask | str):
        raise TypeError(f"expected a ChildTask that spawn returned, or the id of a task: {task!r}")
    return TaskId(task if isinstance(task, str) else task.task_id)


def _result(child: ChildTask, outcome: Outcome) -> ChildResult:
    error, output = outcome.error or {}, outcome.output
    is_ok = outcome.status is TaskStatus.SUCCEEDED
    if is_ok and child.output is not None:
        read = _type_of(child.output).read(output)
        if isinstance(read, late("penstock.tools.python.signature:Misfit")):
            problems = "; ".join(map(str, read.problems))
            raise ToolFailed(f"the output of {child.task_id} does not fit its type: {problems}")
        output = read
    return ChildResult(
        task_id=child.task_id,
        status=outcome.status.value,
        output=output,
        error="" if is_ok else outcome.message,
        code=error.get("code", ""),
    )
