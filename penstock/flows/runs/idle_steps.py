"""Steps of a run that started but cannot continue in this activation."""

from msgspec import Struct, field

from penstock.core.errors import Blocked, Signal, Suspend
from penstock.core.task import Missing
from penstock.engine.task_state import TaskState


class IdleSteps(Struct):
    """Steps that wait for a person or a run, and steps for which something is missing here."""

    waiting: dict[str, Suspend] = field(default_factory=dict)
    blocked: dict[str, tuple[Missing, ...]] = field(default_factory=dict)

    def take_answered(self, task: TaskState) -> list[str]:
        """Remove and return the steps whose questions are all answered."""
        answered = [
            step_id
            for step_id, suspend in self.waiting.items()
            if not any(map(task.awaits, suspend.awaited))
        ]
        for step_id in answered:
            del self.waiting[step_id]
        return answered

    def pause(self) -> Signal:
        """Return the signal that ends this activation when no step is at work.

        Questions have priority: the signal is Suspend while any step waits. The next activation
        tries the blocked steps again, and the signal is Blocked once no step waits.
        """
        if self.blocked and not self.waiting:
            missing = (part for parts in self.blocked.values() for part in parts)
            return Blocked(tuple(dict.fromkeys(missing)))
        return Suspend(
            *[awaited for suspend in self.waiting.values() for awaited in suspend.awaited]
        )
