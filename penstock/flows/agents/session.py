"""An agent session: one agent works in a frame of the log until it calls `finish`.

Guarantees: a session ends with exactly one outcome, and that outcome follows from the log alone
(`end_of`), so a session that was killed between its `finish` and the step's outcome ends in the
same way without asking the model again. The number of turns, of replies without a call and of
refused `finish` calls is limited.

How: `pursue` repeats "decide from the dialogue whether the session has ended; if not, take a
turn". In the last turn only `finish` is offered. `SessionCallRunner` carries out the calls of a
reply in order: calls before a `finish` have settled when it is judged; calls after a valid `finish`
are refused; a refused `finish` is settled with the reasons, so that the model can correct it. A
hook sees only a `finish` that is valid, and cannot change it. Relies on `Turns` for turns and
budget. Tests: tests/flows/agents/test_session.py.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from penstock.agents.agent import ChatSettings
from penstock.agents.call_runner import CallRunner
from penstock.agents.loop_guard import MAX_BLOCKED, LoopGuard
from penstock.agents.tool_offer import ToolOffer
from penstock.agents.turn import Turns
from penstock.core.call import FINISH, Call, frame_above
from penstock.core.call_errors import (
    BudgetExceeded,
    CallError,
    InvalidInput,
    ModelRetry,
    NotPermitted,
)
from penstock.core.envelope import Envelope, Status
from penstock.core.errors import Cancel, ConfigError, HookFailed, HookRefused, ModelError
from penstock.core.events.events import CallSettled
from penstock.core.events.flow_events import AgentReminded, Outcome, StepStatus
from penstock.core.exhaustion import raise_exhaustion
from penstock.core.messages import AssistantMessage
from penstock.engine.dialogue import Dialogue
from penstock.engine.ledger import Ledger
from penstock.flows.agents.finish import DONE, AcceptedFinish, FinishContract, RejectedFinish
from penstock.flows.runs.visits import VisitOutcome, failed
from penstock.models.model import ToolDefinition
from penstock.tools.failures import problem_details
from penstock.tools.hooks.deciding import TaskHooks
from penstock.tools.invoker import Invoker
from penstock.tools.policy import Caller, SessionGuard

FINISH_REMINDERS = 2
"""Most reminders to an agent that calls no tool and does not finish."""

FINISH_RETRIES = 2
"""Invalid calls of `finish` in one visit that the agent may correct; one more fails the step."""

BAD_BRANCH = "bad_branch"
"""Detail of a refused `finish` with an invalid branch."""
NOT_ACCEPTED = "finish was not accepted: "
FINISH_NOTE = "No turn is left. Call finish now, with what you have; name what is missing."
"""The message before the last turn."""
ONLY_FINISH = frozenset({FINISH})
"""Tools allowed in the last turn of a session."""


def end_of(dialogue: Dialogue, contract: FinishContract) -> VisitOutcome | None:
    """Return the outcome that the session's settled calls mean, or None if it continues."""
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
            elif (ended := _fatal_failure(settled)) is not None:
                return ended
    return _unacceptable(refused) if len(refused) > FINISH_RETRIES else None


class SessionOffer:
    """Tools offered to the model of a session, the same in each turn."""

    def __init__(self, offer: ToolOffer) -> None:
        self._offer = offer

    def at(self, selected: tuple[str, ...], told: tuple[str, ...] = ()) -> ToolOffer:
        """Return the offer. Sessions have no skills to select, so both have no effect."""
        return self._offer

    def close(self) -> None:
        """Let the model call nothing but `finish` from now on: this is the last turn."""
        caller = replace(self._offer.caller, agent_tools=ONLY_FINISH)
        self._offer = replace(self._offer, caller=caller, only=(FINISH,))


class SessionCallRunner(CallRunner):
    """Carries out the calls of one agent session."""

    __slots__ = ("contract", "hooks", "session")

    def __init__(
        self,
        invoker: Invoker,
        ledger: Ledger,
        settings: ChatSettings,
        *,
        session: SessionGuard,
        contract: FinishContract,
        hooks: TaskHooks | None = None,
    ) -> None:
        super().__init__(invoker, ledger, settings)
        self.session = session
        self.contract = contract
        self.hooks = hooks

    def guarding(self) -> LoopGuard:
        """Return a new loop guard. `finish` is exempt: its repetitions are counted separately."""
        return LoopGuard(self._settings, exempt={FINISH}, by_result=True)

    async def run(self, calls: Sequence[Call], caller: Caller) -> None:
        """Carry out the calls of one reply, up to a valid `finish`.

        Raises Suspend if a call waits for a person; no call after it has started then.
        """
        batch: list[Call] = []
        for call in calls:
            if call.tool_id == FINISH:
                await self._run(batch, caller)
                batch = []
                await self._finish(call)
            elif (error := self._refusal(call, caller)) is not None:
                self.invoker.refuse(call, self.ledger, error, "")
            else:
                batch.append(call)
        await self._run(batch, caller)

    async def _run(self, batch: Sequence[Call], caller: Caller) -> None:
        if batch:
            await super().run(batch, caller)

    def _refusal(self, call: Call, caller: Caller) -> CallError | None:
        """Return why a call is refused. The invoker itself refuses unknown tools."""
        if caller.agent_tools == ONLY_FINISH:
            return NotPermitted("no turn is left: nothing but finish may be called.")
        is_known = call.tool_id in self.invoker.registry
        return self.session.refusal(call) if is_known or self.session.is_finished else None

    async def _finish(self, call: Call) -> None:
        if (error := self.session.refusal(call)) is not None:
            self.invoker.refuse(call, self.ledger, error, "")
            return
        judged = self.contract.judge(call.input)
        if isinstance(judged, RejectedFinish):
            self.invoker.refuse(call, self.ledger, _invalid(judged), "")
            return
        if (error := await self._hooks_refusal(call)) is not None:
            self.invoker.refuse(call, self.ledger, error, "")
            return
        self.session.finish()
        settled = CallSettled(
            tool_id=FINISH,
            envelope=Envelope(Status.SUCCESS, DONE),
            call_id=call.call_id,
            context=DONE,
            ran=False,
        )
        self.ledger.settle(call.path, settled)

    async def _hooks_refusal(self, call: Call) -> CallError | None:
        """Return why a hook does not accept a valid `finish`, or None. Raises HookFailed."""
        hooks = self.hooks
        if hooks is None:
            return None
        try:
            left, question = await hooks.before_call(call, 0)
        except NotPermitted as error:
            return error
        if left is not call or question is not None:
            return NotPermitted("a hook can refuse `finish`, and not change it or ask a person")
        sent_back = await hooks.on_output(call.input, frame_above(call.path))
        return None if sent_back is None else ModelRetry(sent_back)


class AgentSession:
    """One agent in one frame, from its first message to its `finish`."""

    def __init__(
        self,
        turns: Turns,
        call_runner: SessionCallRunner,
        offer: SessionOffer,
        *,
        max_turns: int,
    ) -> None:
        self._turns = turns
        self._call_runner = call_runner
        self._offer = offer
        self._max_turns = max_turns

    @property
    def dialogue(self) -> Dialogue:
        """The messages and turns of the session."""
        return self._turns.dialogue

    async def pursue(self) -> VisitOutcome:
        """Continue the session to its end, from any point of its dialogue.

        Raises Suspend if it waits for a person, Cancel if the cancellation of the task was
        requested.
        """
        hooks = self._call_runner.hooks
        try:
            if hooks is not None:
                await hooks.begin(self.dialogue)
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
        except (HookRefused, HookFailed) as error:
            return failed(error.code.lower(), str(error), is_hard=True)
        return ended

    async def _turn(self) -> VisitOutcome | None:
        """Take one turn, or finish an interrupted one."""
        if is_last := self._is_last():
            self._offer.close()
            if self.dialogue.reply is None and not self.dialogue.is_closing:
                self._turns.remind(FINISH_NOTE, is_note=True)
        reply = self.dialogue.reply or await self._turns.think()
        if reply is None:
            return failed("budget", "the budget of this task is used up", is_hard=True)
        if reply.calls:
            await self._turns.act(self.dialogue.rounds[-1])
            return None
        return self._out_of_turns() if is_last else self._remind()

    def _is_last(self) -> bool:
        """Whether the next turn is the last: the limit is reached, or the agent repeats itself."""
        turns = self.dialogue.iteration - (self.dialogue.reply is not None)
        return turns >= self._max_turns or self._turns.blocked >= MAX_BLOCKED

    def _remind(self) -> VisitOutcome | None:
        """Reply to a message without calls, up to the limit of reminders."""
        if self.dialogue.reminders >= FINISH_REMINDERS:
            count = self.dialogue.reminders + 1
            return failed("agent_no_finish", f"{count} replies called no tool, not even finish")
        names = ", ".join(self._call_runner.contract.parameters["required"])
        message = (
            "You called no tool. Your last act must be a call of finish. "
            f"It needs: {names}. Call it now, or continue your work."
        )
        self._call_runner.ledger.add(AgentReminded(message=message), self.dialogue.path)
        return None

    def _ended(self) -> VisitOutcome | None:
        """Return the outcome of the session according to the log, or None."""
        ended = end_of(self.dialogue, self._call_runner.contract)
        if ended is None and self._was_last():
            return self._out_of_turns()
        return ended

    def _was_last(self) -> bool:
        """Whether the last settled turn was one in which only `finish` was offered."""
        last = self.dialogue.rounds[-1] if self.dialogue.rounds else None
        if last is None or not last.is_settled:
            return False
        if self.dialogue.iteration > self._max_turns:
            return True
        is_blocked = any(call.detector is not None for call in last.settled.values())
        return self._turns.blocked >= MAX_BLOCKED and not is_blocked

    def _out_of_turns(self) -> VisitOutcome:
        if self.dialogue.iteration > self._max_turns:
            return failed("agent_turn_limit", f"no finish within {self._max_turns} turns")
        return failed("agent_turn_limit", "the agent repeated itself, and did not finish")


def definition_of(contract: FinishContract) -> ToolDefinition:
    """Return the definition of `finish` for a model."""
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
    warnings = [f"finish had undeclared parameters: {dropped}"] if dropped else []
    if result.status is StepStatus.COMPLETE:
        return VisitOutcome(outcome=Outcome.SUCCESS, result=result, warnings=warnings)
    return VisitOutcome(
        outcome=Outcome.SOFT,
        result=result,
        source="agent_finish_error",
        text=result.summary or f"the agent ended with status {result.status.value}",
        warnings=warnings,
    )


def _fatal_failure(settled: CallSettled) -> VisitOutcome | None:
    """Return the failure that a call's error means if the session must not continue after it."""
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
    """Return the failure of a session whose `finish` calls were all refused."""
    error, count = refused[-1].envelope.error, len(refused)
    why = "" if error is None else f": {error.message.removeprefix(NOT_ACCEPTED)}"
    if all(map(_is_bad_branch, refused)):
        text = f"{count} calls of finish chose no branch of this step{why}"
        return failed("off_map_branch", text, is_hard=True)
    return failed("finish_invalid", f"{count} calls of finish were not valid{why}")


def _last_text(dialogue: Dialogue) -> str:
    for message in reversed(dialogue.messages.entries):
        if isinstance(message, AssistantMessage) and message.content.strip():
            return message.content
    return ""


def _invalid(refused: RejectedFinish) -> InvalidInput:
    problems = list(refused.problems)
    details = {**problem_details(problems), BAD_BRANCH: refused.is_bad_branch}
    text = "; ".join(_problem_text(problem.path, problem.message) for problem in problems)
    return InvalidInput(f"{NOT_ACCEPTED}{text}", details=details)


def _problem_text(path: str, message: str) -> str:
    """Return the text of a problem. That of a branch names its parameter itself."""
    return message if path == "/branch" else f"{path or '/'}: {message}"
