"""Events about the history of a log: it was shortened, messages were erased, or it is a copy."""

from msgspec import Struct

from penstock.core.ids import LogId, TaskId
from penstock.core.messages import NOTHING_SPENT, Usage


class Summarised(Struct, frozen=True, kw_only=True, gc=False):
    """Models read the conversation in a shorter form from then on; its events stay.

    Results of tools in finished tasks are read as previews. The oldest tasks are left out, or read
    as the summary.
    """

    text: str = ""
    """The summary; empty if previews were short enough, or if the tasks are left out."""
    tasks: tuple[TaskId, ...] = ()
    """The tasks that are not read any more, oldest first; with a summary also those of earlier
    summaries."""
    base: int = 0
    """The `seq` of the newest event before it; 0 without a summary."""
    usage: Usage = NOTHING_SPENT
    """The tokens of the request for the summary."""
    results: int = 0
    """How many results of the task itself are read as previews, too: its oldest ones."""
    keeps_earlier: bool = False
    """Earlier tasks are read as before."""
    constant: int = 0
    """Estimated tokens of the system prompt and the tools, which a shorter history does not change.
    """
    too_long: bool = False
    """The provider refused a request because it was too long."""


class Erased(Struct, frozen=True, kw_only=True, gc=False):
    """The blank form of an event that a person erased; a fold ignores it."""


class MessagesErased(Struct, frozen=True, kw_only=True, gc=False):
    """The user message of a task, its answer, or both were erased. An outside event."""

    of_task: TaskId
    user: bool
    answer: bool


class Forked(Struct, frozen=True, kw_only=True, gc=False):
    """The events before this one are copies: another task continues from them here."""

    from_task: TaskId
    from_log: LogId
    seq: int
    """The newest event of the other log that was copied."""
