"""What each visit of a step has cost: its time without people, its tokens and its calls."""

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct, field

from penstock.core.call import CallPath
from penstock.core.flow_events import FlowNotified, StepStarted
from penstock.core.messages import Usage
from penstock.engine.task_state import TaskState

STEP_WAITS = "flow_step_waits"
"""Told where a visit begins or ends to wait for people; readers are shown the question instead."""


class _Visit(Struct):
    """One visit, on the clock of its task: that stands still while nobody is at work."""

    began: int
    waited: int = 0
    since: int | None = None
    """When it began to wait, if it waits."""
    agents: list[CallPath] = field(default_factory=list)
    tool_calls: int = 0


class VisitCosts:
    """The costs of the visits in a task: a fold of its log, and nothing else."""

    def __init__(self, task: TaskState) -> None:
        self._task = task
        self._visits: dict[str, _Visit] = {}
        """By frame."""
        self._told = self._agents = self._settled = 0
        """How much of the task was taken in."""

    def waits(self, frame: CallPath) -> bool:
        """Whether a visit waits for people, as far as the log tells."""
        self._catch_up()
        return self._visits[frame].since is not None

    def duration(self, frame: CallPath, now: int) -> int:
        """Return how long a visit was at work, in milliseconds, by the clock of the task."""
        self._catch_up()
        visit = self._visits[frame]
        still = 0 if visit.since is None else now - visit.since
        return max(now - visit.began - visit.waited - still, 0)

    def usage(self, frame: CallPath) -> Usage:
        """Return what a visit has spent, with all that stands inside it."""
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
        for path, event in task.story[self._told :]:
            if path is not None and isinstance(event, StepStarted):
                self._visits[path] = _Visit(event.active_ms)
            elif isinstance(event, FlowNotified) and event.kind == STEP_WAITS:
                self._wait(path or "", event)
        self._told = len(task.story)
        for path in islice(reversed(task.agents), len(task.agents) - self._agents):
            for visit in self._around(path):
                visit.agents.append(path)
        self._agents = len(task.agents)
        newest = islice(reversed(task.settled.items()), len(task.settled) - self._settled)
        for path, settled in newest:
            for visit in self._around(path) if settled.ran else ():
                visit.tool_calls += 1
        self._settled = len(task.settled)

    def _wait(self, path: str, told: FlowNotified) -> None:
        visit, at = self._visits[path], int(told.body["activeMs"])
        if told.body["waits"]:
            visit.since = at
        elif visit.since is not None:
            visit.waited, visit.since = visit.waited + at - visit.since, None

    def _around(self, path: str) -> Iterator[_Visit]:
        """Yield the visits that something happened in, innermost first."""
        while path:
            if (visit := self._visits.get(path)) is not None:
                yield visit
            path = path.rpartition("/")[0]
