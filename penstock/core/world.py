"""What every mechanism finds outside itself: time, chance, and bounds."""

from msgspec import Struct

from penstock.core.clock import Clock
from penstock.core.ids import NewId
from penstock.core.limits import Limits


class World(Struct, frozen=True):
    """Time, chance and bounds, as one argument."""

    clock: Clock
    limits: Limits
    new_id: NewId
