"""The loop of a task with a typed output: turns until the model hands in one that fits.

It guarantees that a task succeeds only with an output that fits its contract, that this follows
from the log alone (`outcome_of`), and that the model is asked a limited number of times: a task
that was killed after the last reply ends with the same output and without another request.

How: each round is judged from the dialogue. An accepted output ends the task. A refused one is
settled with its problems, so that the model reads them; an answer without a call of `final_answer`
gets a reminder. Both count as attempts. When the iterations or the loop guard end the work, only
`final_answer` is offered, and `output_retries` more replies are asked for.

Calls beside `final_answer` in one reply: those that read run first. A write or a hand-off beside it
is refused together with it, and the model must choose; otherwise it would act and end without
having seen what its act brought. Whether a reply has a write is read from the reply and not from
the calls still open, because a restart finds only those. Proof: tests/agents/test_output_loop.py.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from penstock.agents.agent import ChatSettings
from penstock.agents.call_runner import CallRunner
from penstock.agents.handoffs import NO_HANDOFFS, Transfer, is_handoff
from penstock.agents.loop import End, FinalReply, ending_of
from penstock.agents.loop_guard import LoopGuard
from penstock.agents.output_contract import OutputContract, OutputMode
from penstock.agents.tool_offer import OutputOffers
from penstock.agents.turn import Turns
from penstock.core.call import Call, Effect, ToolCall
from penstock.core.call_errors import (
    BudgetExceeded,
    InvalidInput,
    InvalidOutput,
    ModelRetry,
    NotPermitted,
    OutputTooLarge,
)
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.errors import Cancel
from penstock.core.events.events import CallSettled, NoteEmitted, ReplyReceived
from penstock.core.events.flow_events import AgentReminded
from penstock.core.json_values.json_text import compact
from penstock.core.json_values.schema import Problem
from penstock.core.task import TaskOutput
from penstock.core.text import cut
from penstock.engine.dialogue import Dialogue
from penstock.engine.ledger import Ledger, Occurrences
from penstock.tools.failures import problem_details
from penstock.tools.hooks.deciding import TaskHooks
from penstock.tools.hooks.hooks import Answer
from penstock.tools.invoker import Invoker
from penstock.tools.policy import Caller

ACCEPTED = "Accepted."
"""The outcome of an accepted `final_answer`, as the model reads it."""
_ACCEPTED = Envelope(Status.SUCCESS, ACCEPTED)
CHOOSE = (
    "final_answer ends the work, so it cannot come in one reply with {names}. "
    "Neither ran. Call {names} first and read the outcome, or call final_answer alone."
)
ANSWERED = "An answer was accepted before this call; only the first one counts."
ANSWER_NOTE = "No other tools are left for this. Give the final answer now, from what you have."
"""The last message before the requests in which only `final_answer` may be called."""
UNUSED = "output.results_unused"
"""The type of the event that names calls whose results no model reads."""
TEXT_CHARACTERS = 2_000
"""Characters of the last answer in the error of a task without an output."""


class OutputCallRunner(CallRunner):
    """Carries out the calls of a task with a typed output."""

    __slots__ = ("_dialogue", "_hooks", "_is_seen", "contract")

    def __init__(
        self,
        invoker: Invoker,
        ledger: Ledger,
        settings: ChatSettings,
        *,
        contract: OutputContract,
        dialogue: Dialogue,
        hooks: TaskHooks | None = None,
    ) -> None:
        super().__init__(invoker, ledger, settings)
        self.contract = contract
        self._dialogue = dialogue
        self._hooks = hooks
        self._is_seen = hooks is not None or bool(contract.functions)

    def guarding(self) -> LoopGuard:
        """Return a new loop guard. Attempts to hand in an output are counted separately."""
        return LoopGuard(self._settings, exempt=self.contract.tool_ids)

    def begin(self, asked: Sequence[ToolCall], seen: Occurrences) -> LoopGuard | None:
        """Settle an answer that came alone, if neither a hook nor an output function sees it.

        A task that hands in its output at once makes no loop guard then.
        """
        answer, variants = asked[0], self.contract.by_tool
        is_alone = len(asked) == 1 and answer.name in variants and answer.arguments_text is None
        if self._is_seen or not is_alone:
            return self.begin_round()
        arguments = answer.arguments
        path = seen.path(answer.name, arguments)
        call = Call(path, answer.name, arguments, 0, answer.call_id)
        if problems := variants[answer.name].problems(arguments):
            self.invoker.refuse(call, self.ledger, refusal(problems), "")
        else:
            self._accept(call)
        return None

    async def run(self, calls: Sequence[Call], caller: Caller) -> None:
        """Carry out calls of which some may hand in an output. Raises Suspend as CallRunner."""
        asked = self._dialogue.rounds[-1].reply.calls
        answers = [call for call in calls if call.tool_id in self.contract.tool_ids]
        others = [call for call in calls if call.tool_id not in self.contract.tool_ids]
        acts = sorted({call.name for call in asked if self._acts(call.name)})
        # Both are refused: if the write ran, the answer would have been given without its outcome;
        # if the answer counted, a write that the model wanted would be missing without a trace.
        if acts and any(call.name in self.contract.tool_ids for call in asked):
            error = NotPermitted(CHOOSE.format(names=" and ".join(acts)))
            for call in calls:
                if call in answers or call.tool_id in acts:
                    self.invoker.refuse(call, self.ledger, error, "")
            answers, others = [], [call for call in others if call.tool_id not in acts]
        if others:
            await super().run(others, caller)
        for call in answers:
            await self._answer(call, caller, unused=[each.tool_id for each in others])

    def _acts(self, tool_id: str) -> bool:
        if tool_id in self.contract.tool_ids:
            return False
        registry = self.invoker.registry
        return registry.effect_of(tool_id) is Effect.WRITE or is_handoff(registry, tool_id)

    async def _answer(self, call: Call, caller: Caller, *, unused: Sequence[str]) -> None:
        ledger, variant = self.ledger, self.contract.by_tool[call.tool_id]
        round_ = self._dialogue.rounds[-1]
        if any(_is_accepted(each, self.contract) for each in round_.settled.values()):
            self.invoker.refuse(call, ledger, NotPermitted(ANSWERED), "")
            return
        if variant.function is not None:
            # Not clipped: the output is for the program, and not only for the model.
            caller, dialogue = replace(caller, clip_at=None), self._dialogue
            if (hooks := caller.hooks) is not None:
                # Below zero: the turns of outputs that come without a call count from zero.
                answer = Answer(dialogue.path, -dialogue.iteration)
                caller = replace(caller, hooks=hooks.answering(answer))
            await super().run([call], caller)
            return
        if problems := variant.problems(call.input):
            self.invoker.refuse(call, ledger, refusal(problems), "")
            return
        sent_back = None
        if self._hooks is not None:
            value = variant.output(call.input).value
            sent_back = await self._hooks.on_output(value, self._dialogue.path)
        if sent_back is not None:
            self.invoker.refuse(call, ledger, ModelRetry(sent_back), "")
            return
        if unused:
            text = f"no model reads the results of {', '.join(unused)}: the answer came with them"
            ledger.note(self._dialogue.path, NoteEmitted(event_type=UNUSED, message=text))
        self._accept(call)

    def _accept(self, call: Call) -> None:
        settled = CallSettled(
            tool_id=call.tool_id,
            envelope=_ACCEPTED,
            call_id=call.call_id,
            context=ACCEPTED,
            is_text=True,
            ran=False,
        )
        self.is_done = True  # so the end of the task is committed next
        self.ledger.settle(call.path, settled, is_awaited=True)


async def output_loop(
    turns: Turns,
    ledger: Ledger,
    offers: OutputOffers,
    *,
    max_iterations: int,
    transfers: Mapping[str, str] = NO_HANDOFFS,
) -> End:
    """Continue a task until it has an output, an error that ends it, or another agent.

    Raises as `loop` does.
    """
    contract, dialogue = offers.contract, turns.dialogue
    while (ended := outcome_of(dialogue, contract)) is None:
        if ledger.task.cancel_requested:
            raise Cancel
        reply = dialogue.reply
        if reply is None:
            # The turns of an agent that handed the task off do not count.
            most = max_iterations + dialogue.taken_at
            ending = _end_or_close(turns, offers, max_iterations=most, transfers=transfers)
            if ending is not None:
                return ending
            reply = await turns.think()
            if reply is None:
                error = BudgetExceeded("the budget of this task ended before it had an output")
                return _detail(error)
        if reply.calls:
            await turns.act(dialogue.rounds[-1])
        elif outcome_of(dialogue, contract) is None:
            ledger.add(AgentReminded(message=_reminder(contract, reply)), dialogue.path)
    return ended


def _end_or_close(
    turns: Turns, offers: OutputOffers, *, max_iterations: int, transfers: Mapping[str, str]
) -> ErrorDetail | Transfer | None:
    """Return how the task ends before the next reply; in its last ones offer no other tools."""
    dialogue, taken = turns.dialogue, turns.dialogue.iteration
    ending = ending_of(turns, transfers)
    if ending is not None and not isinstance(ending, str):
        return ending
    # The corrections come on top of the iterations: a model that used all of its turns for work
    # must still be able to correct its answer.
    if taken > max_iterations + offers.contract.retries:
        return _failed(f"no answer fitted in {taken} replies", (), dialogue)
    if (ending is not None or taken >= max_iterations) and not dialogue.is_closing:
        turns.remind(ANSWER_NOTE, is_note=True)
    if dialogue.is_closing:
        offers.close()
    return None


def outcome_of(dialogue: Dialogue, contract: OutputContract) -> FinalReply | ErrorDetail | None:
    """Return how the task ends according to its log, or None if it continues."""
    # Counted in the log at each turn and not in a variable: a process that takes over must not
    # give the model more attempts. A task has few rounds, so this costs a few microseconds.
    attempts = dialogue.reminders
    problems: Sequence[Problem] = ()
    for round_ in dialogue.rounds:
        for call in round_.reply.calls:
            settled = round_.settled.get(call.call_id)
            if settled is None or call.name not in contract.tool_ids:
                continue
            if settled.envelope.ok:
                return _accepted(round_.reply, call, settled, contract)
            if settled.envelope.status is Status.VALIDATION_ERROR:
                attempts, problems = attempts + 1, _problems_of(settled)
    reply = dialogue.reply
    if reply is not None and not reply.calls:
        if reply.refusal is not None:
            return _failed(f"the model refused to answer: {reply.refusal}", (), dialogue)
        judged = _judged(contract, reply)
        if isinstance(judged, TaskOutput):
            return FinalReply(reply.text, reply.finish, reply, judged)
        attempts, problems = attempts + 1, judged
    if attempts <= contract.retries:
        return None
    count = f"{attempts} answers" if attempts > 1 else "the answer"
    return _failed(f"{count} did not fit the output's schema", problems, dialogue)


def refusal(problems: Sequence[Problem]) -> InvalidInput:
    """Return the error by which the model reads what does not fit."""
    text = "; ".join(map(str, problems))
    return InvalidInput(
        f"the answer was not accepted: {text}",
        suggestion="Correct it, and hand it in again.",
        details=problem_details(list(problems)),
    )


def _accepted(
    reply: ReplyReceived, call: ToolCall, settled: CallSettled, contract: OutputContract
) -> FinalReply | ErrorDetail:
    variant = contract.by_tool[call.name]
    if variant.function is None:
        output = variant.output(call.arguments)
    elif settled.artifact_blob is not None:
        size = f"{settled.total_characters} characters"
        return _detail(OutputTooLarge(f"the output function returned {size} (limits.body_bytes)"))
    else:
        output = TaskOutput(value=settled.envelope.output)
    return FinalReply(reply.text.strip() or compact(output.value), "stop", reply, output)


def _is_accepted(settled: CallSettled, contract: OutputContract) -> bool:
    return settled.tool_id in contract.tool_ids and settled.envelope.ok


def _judged(contract: OutputContract, reply: ReplyReceived) -> TaskOutput | list[Problem]:
    judged = [] if contract.functions else contract.judge_text(reply.text)
    # Models without a forced choice of tools often write the arguments as text: these count.
    if contract.mode is OutputMode.TOOL and not isinstance(judged, TaskOutput):
        return [Problem("", "the answer was text, and not a call of final_answer")]
    return judged


def _reminder(contract: OutputContract, reply: ReplyReceived) -> str:
    if contract.mode is OutputMode.TOOL:
        names = " or ".join(sorted(contract.tool_ids))
        return f"Your answer was not accepted: it must be a call of {names}. Call it now."
    judged = _judged(contract, reply)
    text = "; ".join(map(str, judged)) if isinstance(judged, list) else ""
    return f"Your answer was not accepted: {text}. Answer again with corrected JSON only."


def _problems_of(settled: CallSettled) -> list[Problem]:
    error = settled.envelope.error
    listed = (error.details or {}).get("problems") if error else None
    if not listed:
        return [Problem("", error.message if error else "")]
    return [Problem(each["path"], each["message"]) for each in listed]


def _failed(why: str, problems: Sequence[Problem], dialogue: Dialogue) -> ErrorDetail:
    text = "; ".join(map(str, problems))
    details = {**problem_details(list(problems)), "text": cut(_said(dialogue), TEXT_CHARACTERS)}
    return _detail(InvalidOutput(f"{why}{': ' if text else ''}{text}", details=details))


def _said(dialogue: Dialogue) -> str:
    """Return the newest answer of the model: its text, or the arguments of its last call."""
    reply = dialogue.reply or (dialogue.rounds[-1].reply if dialogue.rounds else None)
    if reply is None:
        return ""
    if not reply.calls:
        return reply.text
    last = reply.calls[-1]
    return last.arguments_text or compact(last.arguments)


def _detail(error: InvalidOutput | BudgetExceeded | OutputTooLarge) -> ErrorDetail:
    detail = error.envelope().error
    assert detail is not None  # noqa: S101  the envelope of an error has one
    return replace(detail, continuable=False)
