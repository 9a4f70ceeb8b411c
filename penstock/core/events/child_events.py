"""The events of child tasks: a task requests them, waits for them, and is asked through them.

A child is a task with a log of its own. Its id is derived from the call that requested it, so a
call that runs again after a crash finds its children. Proof: tests/chat/children.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from penstock.core.call import CallPath
from penstock.core.envelope import Json
from penstock.core.ids import LogId, ProfileId, QuestionId, TaskId
from penstock.core.task import Question, TaskStatus

CHILD = "child"
"""The kind of a task that another task requested."""


class Join(Struct, frozen=True, gc=False):
    """The tasks that a call, or a child that has not started, waits for."""

    path: CallPath
    """The call; empty for the dependencies of a child."""
    runs: tuple[TaskId, ...]
    any: bool = False
    """One end is enough; otherwise all must end."""
    needs_success: bool = False
    """With `any`: only a success is enough, or the end of all."""

    def is_met(self, ended: Mapping[TaskId, TaskStatus | None]) -> bool:
        """Return whether the tasks that have ended are enough."""
        if not self.any:
            return all(run in ended for run in self.runs)
        done = [ended[run] for run in self.runs if run in ended]
        if not self.needs_success:
            return bool(done) or not self.runs
        return TaskStatus.SUCCEEDED in done or len(done) == len(self.runs)


class Dependency(Struct, frozen=True, gc=False):
    """A task that another one waits for, under the name that it has there."""

    task_id: TaskId
    alias: str


class ChildRequested(Struct, frozen=True, kw_only=True):
    """A task requested a child. An outside event, and the first one of the child's log."""

    profile_id: ProfileId
    agent: str
    """The agent that works on it: that of the call."""
    parent: TaskId
    """The task that requested it, and its log; both are empty in the retry of a child."""
    parent_log: LogId
    root: TaskId
    """The task at the top of the tree."""
    root_log: LogId
    session: LogId
    """The conversation whose files and values it shares."""
    title: str
    objective: str
    permissions: tuple[str, ...] | None = None
    """The permissions of the profile; None means all."""
    input: Any = None
    depth: int = 1
    """How many tasks are above it."""
    key: str = ""
    """The name that its parent gave it; empty for a child of a batch."""
    batch_id: str = ""
    """Its batch: it is cancelled when its parent ends."""
    worker_kind: str = ""
    output_schema: Json | None = None
    """JSON Schema of its output; None for text or any JSON."""
    selected_skills: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    """The tools that its model is offered; None for all of its agent."""
    max_turns: int | None = None
    """Most replies of its model with calls; None for the agent's limit."""
    dependencies: tuple[Dependency, ...] = ()
    """The tasks that must end before it starts."""
    any: bool = False
    """One of them is enough."""
    needs_success: bool = False
    """It fails without a start if one of them did not succeed; with `any`, if none did."""
    working_for: tuple[str, ...] = ()
    """The agents around the one that requested it: it may do nothing that they must not."""
    is_autonomous: bool = False
    """It must not ask a person."""

    @property
    def place(self) -> tuple[str, ...]:
        """Its place in the tree and its names, as lists have them."""
        tree = (self.parent, self.root, self.title, self.key)
        return (*tree, self.worker_kind, self.batch_id)

    @property
    def join(self) -> Join:
        """The tasks that must end before it starts."""
        runs = tuple(each.task_id for each in self.dependencies)
        return Join(CallPath(""), runs, self.any, self.needs_success)


class ChildrenSpawned(Struct, frozen=True, kw_only=True, gc=False):
    """A call of this task is about to create these children; written before they exist."""

    children: tuple[TaskId, ...]
    batch_id: str = ""
    key: str = ""
    digest: str = ""
    """The hash of the arguments; the same key with another one is a mistake."""


class WaiterAdded(Struct, frozen=True, kw_only=True, gc=False):
    """Another task waits for the end of this one. An outside event."""

    waiter: TaskId
    waiter_log: LogId


class TreeAsked(Struct, frozen=True, kw_only=True, gc=False):
    """A question of a task below this one, at the root of their tree. An outside event.

    A person follows the root: its stream shows the questions of the whole tree. The event may be
    written twice after a crash; readers ignore the second one.
    """

    asker: TaskId | None = None
    """The task whose question was asked or answered."""
    question: Question | None = None
    """The question, if it was asked."""
    answered: QuestionId | None = None
    """The question, if it was answered or closed."""
    answer: Json | None = None
    """None if it was closed without an answer."""
    open: tuple[QuestionId, ...] = ()
    """All open questions of the tree, if nothing in it can continue without a person."""


ChildEvent = ChildRequested | ChildrenSpawned | WaiterAdded | TreeAsked
FROM_OUTSIDE = frozenset({ChildRequested, WaiterAdded, TreeAsked})
"""Those that need no lease."""
