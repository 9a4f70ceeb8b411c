"""The event of long conversations: earlier tasks are read as a summary from then on."""

from msgspec import Struct

from penstock.core.ids import TaskId
from penstock.core.messages import NOTHING_SPENT, Usage


class Summarised(Struct, frozen=True, kw_only=True, gc=False):
    """Models read the earlier conversation in a shorter form from then on; its events stay.

    Results of tools in finished tasks are read as previews, and the oldest tasks as the summary.
    """

    text: str = ""
    """The summary; empty if previews were short enough, or if no summary could be written."""
    tasks: tuple[TaskId, ...] = ()
    """The tasks that it replaces, also those of earlier summaries, oldest first."""
    base: int = 0
    """The `seq` of the newest event before it; 0 without a summary."""
    usage: Usage = NOTHING_SPENT
    """The tokens of the request for it."""
