"""An agent session: an agent at work in a frame of the log until it calls `finish`."""

from collections.abc import Sequence

from msgspec.structs import replace

from penstock.agents.guard import MOST_BLOCKED
from penstock.agents.offer import ToolOffer
from penstock.agents.turn import Turns
from penstock.core.call_errors import BudgetExceeded
from penstock.core.envelope import Status
from penstock.core.errors import ConfigError, ModelError
from penstock.core.events import CallSettled
from penstock.core.exhaustion import raise_exhaustion
from penstock.core.flow_events import AgentReminded
from penstock.core.limits import Limits
from penstock.core.messages import AssistantMessage
from penstock.core.signals import Cancel
from penstock.core.step import Outcome, StepStatus
from penstock.core.tool_names import FINISH
from penstock.engine.dialogue import Dialogue
from penstock.flows.agents.finish import AcceptedFinish, FinishContract
from penstock.flows.agents.session_call_runner import (
    BAD_BRANCH,
    NOT_ACCEPTED,
    ONLY_FINISH,
    SessionCallRunner,
)
from penstock.flows.runs.visit_outcome import VisitOutcome, failed
from penstock.models.model import ToolDefinition


def end_of(dialogue: Dialogue, contract: FinishContract, limits: Limits) -> VisitOutcome | None:
    """Return how a session ended, by what its calls came to; None if they do not end it."""
    refused: list[CallSettled] = []
    for round_ in dialogue.rounds:
        for call in round_.reply.calls:
            settled = round_.settled.get(call.call_id)
            if settled is None:
                continue
            if call.name == FINISH and settled.envelope.ok:
                return _finished(call.arguments, dialogue, contract)
            if call.name == FINISH and settled.envelope.status is Status.VALIDATION_ERROR:
                refused.append(settled)
            elif (ended := _stopped(settled)) is not None:
                return ended
    return _unacceptable(refused) if len(refused) > limits.finish_retries else None


class SessionOffer:
    """What the model of a session is offered: the same each turn, and `finish` alone at its end."""

    def __init__(self, offer: ToolOffer) -> None:
        self._offer = offer

    def at(self, selected: tuple[str, ...]) -> ToolOffer:
        """Return what is offered; the skills of a session are nobody's business here."""
        return self._offer

    def close(self) -> None:
        """Offer `finish` alone: no turn follows."""
        own = tuple(each for each in self._offer.definitions if each.name == FINISH)
        caller = replace(self._offer.caller, agent_tools=ONLY_FINISH)
        self._offer = replace(self._offer, definitions=own, caller=caller)


class AgentSession:
    """One agent in one frame, from its message to its `finish`."""

    def __init__(
        self,
        turns: Turns,
        call_runner: SessionCallRunner,
        offer: SessionOffer,
        *,
        limits: Limits,
        max_turns: int,
    ) -> None:
        self._turns = turns
        self._call_runner = call_runner
        self._offer = offer
        self._limits = limits
        self._most = max_turns

    @property
    def dialogue(self) -> Dialogue:
        """What was said to the agent, and its turns."""
        return self._turns.dialogue

    async def pursue(self) -> VisitOutcome:
        """Go on until the session has ended; it may be entered anywhere.

        Raises Suspend when it waits for a person, Cancel when somebody wants the task to end.
        """
        try:
            while (ended := self._ended()) is None:
                if self._call_runner.ledger.task.cancel_requested:
                    raise Cancel
                if (ended := await self._turn()) is not None:
                    return ended
        except ModelError as error:
            return failed("api_error", str(error), is_hard=True)
        except ConfigError as error:
            raise_exhaustion(error)
            return failed("model_unresolved", str(error))
        return ended

    async def _turn(self) -> VisitOutcome | None:
        """Take one turn, or go on with the one that was left."""
        if is_last := self._is_last():
            self._offer.close()
        reply = self.dialogue.reply or await self._turns.think()
        if reply is None:
            return failed("budget", "the budget of this task is used up", is_hard=True)
        if reply.calls:
            await self._turns.act(self.dialogue.rounds[-1])
            return None
        return self._out_of_turns() if is_last else self._remind()

    def _is_last(self) -> bool:
        """Whether no turn follows the next one: there were enough, or the agent goes in circles."""
        turns = self.dialogue.iteration - (self.dialogue.reply is not None)
        return turns >= self._most or self._turns.blocked >= MOST_BLOCKED

    def _remind(self) -> VisitOutcome | None:
        """Answer a reply that called nothing, as often as that may be."""
        if self.dialogue.reminders >= self._limits.finish_reminders:
            count = self.dialogue.reminders + 1
            return failed("agent_no_finish", f"{count} replies called no tool, not even finish")
        names = ", ".join(self._call_runner.contract.parameters["required"])
        message = (
            "You called no tool. Your last act must be a call of finish. "
            f"It needs: {names}. Call it now, or go on with your work."
        )
        self._call_runner.ledger.add(AgentReminded(message=message), self.dialogue.path)
        return None

    def _ended(self) -> VisitOutcome | None:
        """Return how the session ended, by what stands in the log."""
        ended = end_of(self.dialogue, self._call_runner.contract, self._limits)
        if ended is None and self._was_last():
            return self._out_of_turns()
        return ended

    def _was_last(self) -> bool:
        """Whether the turn that settled last was one in which the agent could only finish."""
        newest = self.dialogue.rounds[-1] if self.dialogue.rounds else None
        if newest is None or not newest.is_settled:
            return False
        if self.dialogue.iteration > self._most:
            return True
        is_blocked = any(each.detector is not None for each in newest.settled.values())
        return self._turns.blocked >= MOST_BLOCKED and not is_blocked

    def _out_of_turns(self) -> VisitOutcome:
        if self.dialogue.iteration > self._most:
            return failed("agent_turn_limit", f"no finish within {self._most} turns")
        return failed("agent_turn_limit", "the agent repeated itself, and did not finish")


def definition_of(contract: FinishContract) -> ToolDefinition:
    """Return `finish` as a model is offered it."""
    return ToolDefinition(
        name=FINISH,
        description="End your work and hand in its result. It must be your last act.",
        parameters=contract.parameters,
        is_builtin=True,
    )


def _finished(
    arguments: dict[str, object], dialogue: Dialogue, contract: FinishContract
) -> VisitOutcome:
    judged = contract.judge(arguments)
    if not isinstance(judged, AcceptedFinish):
        text = "the recorded finish does not fit what the step asks for now"
        return failed("finish_invalid", text)
    result = judged.result
    result = replace(result, full_output=_last_text(dialogue) or result.summary)
    dropped = ", ".join(judged.undeclared)
    warnings = [f"finish had parameters that nobody declared: {dropped}"] if dropped else []
    if result.status is StepStatus.COMPLETE:
        return VisitOutcome(outcome=Outcome.SUCCESS, result=result, warnings=warnings)
    return VisitOutcome(
        outcome=Outcome.SOFT,
        result=result,
        source="agent_finish_error",
        text=result.summary or f"the agent ended with status {result.status.value}",
        warnings=warnings,
    )


def _stopped(settled: CallSettled) -> VisitOutcome | None:
    """Return the end that a call means after which the agent may not go on."""
    error = settled.envelope.error
    if error is None or error.continuable:
        return None
    if error.code == BudgetExceeded.code:
        return failed("budget", error.message, is_hard=True)
    return failed("tool_not_continuable", f"{settled.tool_id}: {error.message}")


def _is_bad_branch(settled: CallSettled) -> bool:
    error = settled.envelope.error
    return bool(error and error.details and error.details.get(BAD_BRANCH))


def _unacceptable(refused: Sequence[CallSettled]) -> VisitOutcome:
    """Return the end of a session whose calls of `finish` were refused; the last one says why."""
    error, count = refused[-1].envelope.error, len(refused)
    why = "" if error is None else f": {error.message.removeprefix(NOT_ACCEPTED)}"
    if all(map(_is_bad_branch, refused)):
        text = f"{count} calls of finish chose no branch of this step{why}"
        return failed("off_map_branch", text, is_hard=True)
    return failed("finish_invalid", f"{count} calls of finish were not valid{why}")


def _last_text(dialogue: Dialogue) -> str:
    for message in reversed(dialogue.said.messages):
        if isinstance(message, AssistantMessage) and message.content.strip():
            return message.content
    return ""
