"""What every mechanism finds outside itself: time, chance, and bounds."""

from dataclasses import dataclass

from penstock.core.clock import Clock
from penstock.core.ids import NewId
from penstock.core.limits import Limits


@dataclass(frozen=True, slots=True)
class World:
    """Time, chance and bounds, as one argument."""

    clock: Clock
    limits: Limits
    new_id: NewId
