"""Index of the flow events of one task, by the frame in which they occurred.

A frame is the path of a run or of a visit: `TASK` for the run itself, `TASK/STEP/VISIT` for a
visit, and so on for flows inside flows. The index reads only events that are new since the last
question: conducting N steps costs O(N), not O(N^2). It relies on `task.story` growing only at its
end. Tests: tests/flows/runs/test_frame_events.py.
"""

from collections.abc import Sequence

from penstock.core.call import CallPath, frame_above
from penstock.core.events.flow_events import FlowStarted, StepSettled, StepStarted
from penstock.engine.task_state import TaskState
from penstock.flows.runs.costs import VisitCosts

StepEvent = StepStarted | StepSettled


class FrameEvents:
    """Starts and outcomes of steps and flows, up to the newest event of the task."""

    def __init__(self, task: TaskState) -> None:
        self._task = task
        self.costs = VisitCosts(task)
        """Costs of the visits."""
        self._story_read = 0
        self._steps: dict[str, list[tuple[CallPath, StepEvent]]] = {}
        """By the frame of their run."""
        self._flows: dict[str, list[tuple[CallPath, FlowStarted]]] = {}
        """By their frame, and by the frame above it: that of the step if its path is a glob."""
        self._numbers: dict[str, int] = {}
        """Frame of a visit -> its number among all visits of the task, from 1."""
        self._starts = self._rested_ms = 0

    @property
    def starts(self) -> int:
        """Number of visits started in the task, including those in nested flows."""
        self._catch_up()
        return self._starts

    def number(self, frame: CallPath) -> int:
        """Return the number of this visit among all visits of the task, from 1."""
        self._catch_up()
        return self._numbers[frame]

    @property
    def rested_ms(self) -> int:
        """Milliseconds in which the task only waited for next attempts, according to the log."""
        self._catch_up()
        return self._rested_ms

    def steps(self, frame: CallPath) -> Sequence[tuple[CallPath, StepEvent]]:
        """Return the starts and outcomes of the steps of the run in this frame."""
        self._catch_up()
        return tuple(self._steps.get(frame, ()))

    def flows(self, frame: CallPath) -> Sequence[tuple[CallPath, FlowStarted]]:
        """Return the flows started in the frame of a step, in order."""
        self._catch_up()
        return tuple(self._flows.get(frame, ()))

    def _catch_up(self) -> None:
        story = self._task.story
        for path, event in story[self._story_read :]:
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
        self._story_read = len(story)
