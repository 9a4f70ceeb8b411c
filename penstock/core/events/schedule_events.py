"""Events of tasks that schedules start: how they start, and that a wait for a person expired."""

from msgspec import Struct

from penstock.core.clock import Moment
from penstock.core.envelope import Json
from penstock.core.ids import ScheduleId

NO_SCHEDULE = ScheduleId("")
"""In the event of a copied task: it has the context of a schedule, but does not belong to it."""


class ScheduleFired(Struct, frozen=True, kw_only=True, gc=False):
    """A schedule requested the task: this is in one write with the request. An outside event.

    The same write moves the row of the schedule to `next_run`, so each due time starts one task.
    """

    schedule_id: ScheduleId
    """The schedule; `NO_SCHEDULE` in a fork of such a task."""
    name: str
    """The name of the schedule at that time."""
    due_at: Moment | None = None
    """The due time; None if a person or a program ran the schedule now."""
    next_run: Moment | None = None
    """The due time that follows; None if the schedule is completed, or was run now."""
    missed: int = 0
    """Due times before this one that started nothing."""
    missed_from: Moment | None = None
    """The oldest of these; None if there is none."""
    context: Json | None = None
    """Members of `flo.task.getContext` in scripts. No model reads them."""
    required_labels: tuple[str, ...] = ()
    """Labels that the agent must have, or the task fails."""
    skips_preselected: bool = False
    """Whether the skills that the agent preselects are left out."""
    suspension_seconds: int | None = None
    """How long a question of the task waits for a person, at most."""
    resume_prompt: str = ""
    """The message that the task continues with after such a question was not answered."""


class WaitExpired(Struct, frozen=True, kw_only=True, gc=False):
    """No person answered a question of such a task in time.

    The first time the task continues with the message; the second time it fails.
    """

    resume_prompt: str = ""
