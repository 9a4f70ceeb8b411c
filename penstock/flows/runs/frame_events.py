"""What happened in the flows of one task, found by the frame in which it happened."""

from collections.abc import Sequence

from penstock.core.call import CallPath, frame_above
from penstock.core.flow_events import FlowStarted, StepSettled, StepStarted
from penstock.engine.task_state import TaskState
from penstock.flows.runs.costs import VisitCosts

StepEvent = StepStarted | StepSettled


class FrameEvents:
    """The starts and ends of steps and flows in a task, as far as the task has come."""

    def __init__(self, task: TaskState) -> None:
        self._task = task
        self.costs = VisitCosts(task)
        """What the visits have cost."""
        self._seen = 0
        self._steps: dict[str, list[tuple[CallPath, StepEvent]]] = {}
        """By the frame of their run."""
        self._flows: dict[str, list[tuple[CallPath, FlowStarted]]] = {}
        """By their frame, and by the one above it: that of a step with a glob."""
        self._numbers: dict[str, int] = {}
        """Of each visit that was begun, by its frame."""
        self._starts = self._rested_ms = 0

    @property
    def starts(self) -> int:
        """How many visits of steps were begun in the task, those of flows inside counted."""
        self._catch_up()
        return self._starts

    def number(self, frame: CallPath) -> int:
        """Return the how-manieth visit of the task began in a frame, from 1."""
        self._catch_up()
        return self._numbers[frame]

    @property
    def rested_ms(self) -> int:
        """How long the task only waited for next tries, as far as its log tells."""
        self._catch_up()
        return self._rested_ms

    def steps(self, frame: CallPath) -> Sequence[tuple[CallPath, StepEvent]]:
        """Return what happened to the steps of the run in a frame."""
        self._catch_up()
        return tuple(self._steps.get(frame, ()))

    def flows(self, frame: CallPath) -> Sequence[tuple[CallPath, FlowStarted]]:
        """Return the flows that were begun in the frame of a step, in their order."""
        self._catch_up()
        return tuple(self._flows.get(frame, ()))

    def _catch_up(self) -> None:
        story = self._task.story
        for path, event in story[self._seen :]:
            if path is None:
                continue
            if isinstance(event, FlowStarted):
                for frame in (path, path.rpartition("/")[0]):
                    self._flows.setdefault(frame, []).append((path, event))
            elif isinstance(event, StepEvent):
                if isinstance(event, StepStarted):
                    self._starts += 1
                    self._numbers[path] = self._starts
                    self._rested_ms = event.rested_ms
                self._steps.setdefault(frame_above(path), []).append((path, event))
        self._seen = len(story)
