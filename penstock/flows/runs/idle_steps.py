"""The steps of a run that have started and cannot go on here, and what they wait for."""

from msgspec import Struct, field

from penstock.core.signals import Blocked, Signal, Suspend
from penstock.core.task import Missing
from penstock.engine.task_state import TaskState


class IdleSteps(Struct):
    """Steps that wait for a person or a run, and steps that lack something in this process."""

    waiting: dict[str, Suspend] = field(default_factory=dict)
    blocked: dict[str, tuple[Missing, ...]] = field(default_factory=dict)

    def take_answered(self, task: TaskState) -> list[str]:
        """Return the steps that wait for nothing more; they are not idle from then on."""
        answered = [
            step_id
            for step_id, each in self.waiting.items()
            if not any(map(task.awaits, each.awaited))
        ]
        for step_id in answered:
            del self.waiting[step_id]
        return answered

    def pause(self) -> Signal:
        """Return the signal of a run in which nothing else moves.

        What a person can bring on comes first. A blocked step is tried again in the activation
        that follows, and blocks the run when no step waits any more.
        """
        if self.blocked and not self.waiting:
            missing = (each for lacks in self.blocked.values() for each in lacks)
            return Blocked(tuple(dict.fromkeys(missing)))
        return Suspend(*[it for each in self.waiting.values() for it in each.awaited])
