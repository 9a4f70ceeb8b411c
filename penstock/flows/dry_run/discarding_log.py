"""A log that is only remembered: what is added to it is in the state, and nowhere else."""

import math
from typing import cast

from penstock.core.events import TaskStarted
from penstock.core.flow_events import FlowRequested
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import LOCAL_PROFILE
from penstock.core.world import World
from penstock.engine.budget import Allowance, Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.state import SessionState
from penstock.store.log import Lease, Log

TASK = TaskId("dry")
_LOG = LogId(TASK)
_KEY = bytes(32)
_ANY = Allowance(model_calls=1_000_000, tool_calls=0, seconds=math.inf)
_LEASE = Lease(log_id=_LOG, epoch=1, head=0, crashed=False, recoveries=0, begun=True)


class DiscardingLog(HeldLog):
    """A log in hand of which nothing is ever sent anywhere."""

    __slots__ = ()

    def __init__(self, world: World) -> None:
        # There is no log below: `submit`, the one way there, ends here.
        nowhere = cast("Log", None)
        super().__init__(nowhere, _LEASE, SessionState(_LOG), world, since=math.inf)

    def submit(self) -> None:
        """Forget what was added: it is in the state."""
        self.leave()
        self._added.clear()


def discarding_ledger(world: World, command: str) -> Ledger:
    """Return the ledger of a run that nobody keeps."""
    held = DiscardingLog(world)
    profile_id = LOCAL_PROFILE.profile_id
    held.add(FlowRequested(command=command, profile_id=profile_id), TASK)
    held.add(TaskStarted(), TASK)
    task = held.state.current
    assert task is not None  # noqa: S101  it has just begun
    return Ledger(held, task, Budget(_ANY, task, world.clock), _KEY)
