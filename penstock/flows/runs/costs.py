"""Costs of each visit of a step: active time, tokens, money and tool calls.

Guarantees: the costs depend on the log alone, so a resumed run reports the same figures. Time
in which a visit waits for a person does not count. A visit includes everything inside it: the
agents and calls of flows that it refers to.

How: a fold of the task that reads only what is new since the last question. Paths nest
(`frame/step/visit/...`), so the visits around a call are found by cutting segments off its path.
Relies on `task.story`, `task.agents` and `task.settled` only ever growing at their ends; an entry
inserted earlier would be missed. Tests: tests/flows/runs/test_costs.py.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct, field

from penstock.core.call import CallPath
from penstock.core.events.flow_events import FlowNotified, StepStarted
from penstock.core.messages import Usage
from penstock.engine.task_state import TaskState

STEP_WAITS = "flow_step_waits"
"""Event kind: a visit starts or stops waiting for people. Not shown to readers of the run, who
see the question instead."""


class _Visit(Struct):
    """One visit. Times are milliseconds of active time: that clock stops between activations."""

    started_at: int
    waited: int = 0
    waiting_since: int | None = None
    """Start of the current wait; None if the visit does not wait."""
    agents: list[CallPath] = field(default_factory=list)
    tool_calls: int = 0


class VisitCosts:
    """Folds the log of a task into the costs of its visits."""

    def __init__(self, task: TaskState) -> None:
        self._task = task
        self._visits: dict[str, _Visit] = {}
        """By frame."""
        self._story_read = self._agents_read = self._settled_read = 0
        """How many entries of the task's story, agents and settled calls have been read."""

    def waits(self, frame: CallPath) -> bool:
        """Whether the visit waits for people, according to the log."""
        self._catch_up()
        return self._visits[frame].waiting_since is not None

    def duration(self, frame: CallPath, now: int) -> int:
        """Return how long the visit was at work, in milliseconds of the task's active time."""
        self._catch_up()
        visit = self._visits[frame]
        still = 0 if visit.waiting_since is None else now - visit.waiting_since
        return max(now - visit.started_at - visit.waited - still, 0)

    def usage(self, frame: CallPath) -> Usage:
        """Return what the visit has spent, including everything inside it."""
        self._catch_up()
        visit = self._visits[frame]
        spent = [each for frame in visit.agents for each in self._task.agents[frame].spent]
        prices = [each.cost_usd for each in spent if each.cost_usd is not None]
        is_priced = bool(prices) and len(prices) == len(spent)
        return Usage(
            input_tokens=sum(each.input_tokens for each in spent),
            output_tokens=sum(each.output_tokens for each in spent),
            model_calls=len(spent),
            tool_calls=visit.tool_calls,
            cost_usd=sum(prices) if is_priced else None,
        )

    def _catch_up(self) -> None:
        task = self._task
        for path, event in task.story[self._story_read :]:
            if path is not None and isinstance(event, StepStarted):
                self._visits[path] = _Visit(event.active_ms)
            elif isinstance(event, FlowNotified) and event.kind == STEP_WAITS:
                self._wait(path or "", event)
        self._story_read = len(task.story)
        # Dicts keep insertion order: reading the newest entries from the end costs the same however
        # long the task is.
        for path in islice(reversed(task.agents), len(task.agents) - self._agents_read):
            for visit in self._around(path):
                visit.agents.append(path)
        self._agents_read = len(task.agents)
        newest = islice(reversed(task.settled.items()), len(task.settled) - self._settled_read)
        for path, settled in newest:
            for visit in self._around(path) if settled.ran else ():
                visit.tool_calls += 1
        self._settled_read = len(task.settled)

    def _wait(self, path: str, event: FlowNotified) -> None:
        visit, now = self._visits[path], int(event.body["activeMs"])
        if event.body["waits"]:
            visit.waiting_since = now
        elif visit.waiting_since is not None:
            visit.waited, visit.waiting_since = visit.waited + now - visit.waiting_since, None

    def _around(self, path: str) -> Iterator[_Visit]:
        """Yield the visits around a path, innermost first."""
        while path:
            if (visit := self._visits.get(path)) is not None:
                yield visit
            path = path.rpartition("/")[0]
