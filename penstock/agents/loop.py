"""Turns until an answer, at most as many as given; then a closing call, so there always is one."""

from msgspec import Struct

from penstock.agents.guard import MOST_BLOCKED
from penstock.agents.turn import Turns
from penstock.core.call_errors import BudgetExceeded
from penstock.core.envelope import ErrorDetail
from penstock.core.events.events import ReplyReceived
from penstock.core.signals import Cancel
from penstock.engine.task_state import TaskState

BUDGET_NOTICE = "I stopped because the budget of this task is used up."
EMPTY_NOTICE = "I could not produce an answer."


class FinalReply(Struct, frozen=True):
    """The words a task ends with, and why it ended there."""

    text: str
    finish: str
    reply: ReplyReceived | None
    """None when no model had a say: a fixed notice."""


async def loop(turns: Turns, task: TaskState, *, max_iterations: int) -> FinalReply | ErrorDetail:
    """Go on with a task until it has an answer, or an error that ends it.

    Raises Suspend when it waits for a person, Cancel when somebody wants it to end, ModelError when
    the model does not answer. It may be
    entered anywhere: what was done before is in the state of the task.
    """
    closing: str | None = None
    while closing is None:
        if task.cancel_requested:
            raise Cancel
        reply = turns.dialogue.reply
        if reply is None:
            if (ending := _ending(turns)) is not None:
                if isinstance(ending, ErrorDetail):
                    return ending
                closing = ending
                break
            if turns.dialogue.iteration >= max_iterations:
                closing = "max_iterations"
                break
            reply = await turns.think()
            if reply is None:
                closing = "budget_exceeded"
                break
        if reply.calls:
            await turns.act(turns.dialogue.rounds[-1])
        elif reply.closing or reply.text.strip():
            return _final(turns, reply, reply.finish)
        else:
            closing = "stop"
    return await _close(turns, closing)


def _ending(turns: Turns) -> str | ErrorDetail | None:
    """Return why no further turn follows the calls that were settled last, if none does."""
    if not turns.dialogue.rounds:
        return None
    if turns.blocked >= MOST_BLOCKED:
        return "loop_detected"
    errors = [each.envelope.error for each in turns.dialogue.rounds[-1].settled.values()]
    final = [error for error in errors if error is not None and not error.continuable]
    if turns.is_spent or any(error.code == BudgetExceeded.code for error in final):
        return "budget_exceeded"
    return final[0] if final else None


async def _close(turns: Turns, reason: str) -> FinalReply:
    reply = await turns.think(closing=reason)
    if reply is None:
        return FinalReply(BUDGET_NOTICE, reason, None)
    return _final(turns, reply, reason)


def _final(turns: Turns, reply: ReplyReceived, finish: str) -> FinalReply:
    """Return what a reply says; one of blanks is taken back, for a notice stands in its place."""
    if reply.text.strip():
        return FinalReply(reply.text, finish, reply)
    if reply.text:
        turns.take_back(closing=True)
    return FinalReply(EMPTY_NOTICE, finish, reply)
