"""The agent loop: turns until there is an answer, at most `max_iterations`, then a closing call.

It guarantees that a task which the iterations, the budget or the loop guard end still gets a reply:
the model is asked once more without tools, and if that is not possible a fixed notice is the reply.
An error that the model cannot continue from (`continuable` is false) and a failing model end the
task with that error.

The loop keeps no state of its own. It can start anywhere, because the dialogue (a fold of the log)
says whether a reply or its calls come next. Calls that a crash left open run before anything else.

Proof: `tests/agents/test_loop.py::test_it_continues_at_any_state_of_the_task`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from penstock.agents.handoffs import NO_HANDOFFS, Transfer, transfer_of
from penstock.agents.loop_guard import MAX_BLOCKED
from penstock.agents.output_contract import OutputContract, OutputMode
from penstock.agents.turn import Turns
from penstock.core.call import CallPath
from penstock.core.call_errors import BudgetExceeded
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import Cancel, ModelRefused
from penstock.core.events.events import NoteEmitted, ReplyReceived
from penstock.core.task import TaskOutput
from penstock.engine.ledger import Ledger
from penstock.engine.task_state import TaskState
from penstock.models.model import ModelCard
from penstock.models.structured.fitted import SCHEMA_REFUSED
from penstock.tools.hooks.deciding import TaskHooks

Ended = TypeVar("Ended")
BUDGET_EXCEEDED = "budget_exceeded"
BUDGET_NOTICE = "I stopped because the budget of this task is used up."
EMPTY_NOTICE = "I could not produce an answer."


class FinalReply(Struct, frozen=True):
    """The text that a task ends with, and the reason why it ended."""

    text: str
    finish: str
    reply: ReplyReceived | None
    """None if the text is a fixed notice."""
    output: TaskOutput | None = None
    """The output of a task that must hand one in."""


End = FinalReply | ErrorDetail | Transfer
"""How the turns of an agent end: with an answer, an error, or another agent."""


async def loop(
    turns: Turns,
    task: TaskState,
    *,
    max_iterations: int,
    transfers: Mapping[str, str] = NO_HANDOFFS,
) -> End:
    """Continue a task until it has an answer, an error that ends it, or another agent.

    Raises Suspend when it waits for a person, Cancel when its cancellation is requested, ModelError
    when the model does not answer.
    """
    closing: str | None = None
    while closing is None:
        # Checked between turns only: a running model call or tool is cancelled by its activation.
        if task.cancel_requested:
            raise Cancel
        reply = turns.dialogue.reply
        if reply is None:
            if (ending := ending_of(turns, transfers)) is not None:
                if not isinstance(ending, str):
                    return ending
                closing = ending
                break
            if turns.dialogue.iteration - turns.dialogue.taken_at >= max_iterations:
                closing = "max_iterations"
                break
            reply = await turns.think()
            if reply is None:
                closing = BUDGET_EXCEEDED
                break
        # A task that resumes here runs the calls that a crash left open before anything else.
        if reply.calls:
            await turns.act(turns.dialogue.rounds[-1])
        elif reply.closing or reply.text.strip() or reply.refusal is not None:
            return _final(turns, reply, reply.finish)
        else:
            closing = "stop"
    return await _close(turns, closing)


def ending_of(
    turns: Turns, transfers: Mapping[str, str] = NO_HANDOFFS
) -> str | ErrorDetail | Transfer | None:
    """Return why the last calls end the agent's turns, or None if another turn follows."""
    if not turns.dialogue.rounds:
        return None
    if turns.blocked >= MAX_BLOCKED:
        return "loop_detected"
    errors = [settled.envelope.error for settled in turns.dialogue.rounds[-1].settled.values()]
    final = [error for error in errors if error is not None and not error.continuable]
    if transfers and not final and (transfer := transfer_of(turns.dialogue, transfers)):
        return transfer  # before the budget: the call says that the other agent has it
    # A nested budget error ends the task like its own budget: a closing call may still fit.
    if turns.is_spent or any(error.code == BudgetExceeded.code for error in final):
        return BUDGET_EXCEEDED
    return final[0] if final else None


async def with_output(
    contract: OutputContract,
    card: ModelCard,
    ledger: Ledger,
    run: Callable[[OutputContract], Awaitable[Ended]],
    *,
    path: CallPath | None = None,
) -> Ended:
    """Run a loop with a typed output; again in another mode if the provider refuses its schema.

    A provider may find a schema too complex that its rules allow. The loop then starts again from
    the log, with a tool, and so do later tasks of this process. Raises as `run`.
    """
    chosen = contract.for_model(card)
    try:
        return await run(chosen)
    except ModelRefused as error:
        if chosen.mode is not OutputMode.NATIVE or not (error.details or {}).get(SCHEMA_REFUSED):
            raise
        other = contract.refused_by(card)
        message = f"{error}; the output is asked for in the mode {other.mode} instead"
        ledger.note(path, NoteEmitted(event_type=SCHEMA_REFUSED, message=message, level="warning"))
        return await run(other)


async def has_passed(hooks: TaskHooks, turns: Turns, ended: End) -> bool:
    """Show an answer to hooks. If they send it back, remind the model and return False.

    Errors, hand-offs and fixed notices are not shown to them.
    """
    if not isinstance(ended, FinalReply) or ended.reply is None:
        return True
    output = ended.text if ended.output is None else ended.output.value
    sent_back = await hooks.on_output(output, turns.dialogue.path)
    if sent_back is not None:
        turns.remind(sent_back)
    return sent_back is None


async def _close(turns: Turns, reason: str) -> FinalReply:
    reply = await turns.think(closing=reason)
    if reply is None:
        return FinalReply(BUDGET_NOTICE, reason, None)
    return _final(turns, reply, reason)


def _final(turns: Turns, reply: ReplyReceived, finish: str) -> FinalReply:
    """Return the reply's text. A blank reply is taken back and replaced by a notice."""
    if reply.text.strip():
        return FinalReply(reply.text, finish, reply)
    if reply.text:
        turns.take_back(closing=True)
    return FinalReply(reply.refusal or EMPTY_NOTICE, finish, reply)
