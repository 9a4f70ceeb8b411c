"""One model answer and its calls.

It guarantees that a task resumes in the middle of a turn: `think` adds a reply to the log before
any of its calls runs, and `act` runs only those calls that are not settled yet. After a crash the
guard is fed with the rounds in the log, so that it gives the same verdicts as before. If a crash
cut a reply that a client may have seen in part, ReplyRestarted first tells streams to drop it.

The budget of a model call is reserved for its largest size before the request, and settled after
it: parallel work of the task cannot spend the same tokens twice. It relies on the Dialogue (the
fold of the log) for what is done, and on one Turns object per task at a time.

Proof: `tests/agents/test_turn.py::test_verdicts_are_the_same_after_a_replay_at_every_cut`.
"""

import asyncio
import logging
from collections.abc import Sequence

from msgspec.structs import replace

from penstock.agents.call_runner import CallRunner
from penstock.agents.loop_guard import SUGGESTION, LoopGuard, spelling
from penstock.agents.reply_reader import ReplyReader, WorkTime, malformed, record_carry
from penstock.agents.tool_offer import AgentModel, ReservedModelCall, ToolOffer
from penstock.agents.transcript import Transcript, room
from penstock.core.call import Call
from penstock.core.call_errors import LoopDetected, ModelRetry
from penstock.core.errors import Cancel, CarryRefused, ContextTooLarge, ModelError
from penstock.core.events.events import ReplyReceived, ReplyRestarted
from penstock.core.events.flow_events import AgentReminded
from penstock.core.events.history_events import Summarised
from penstock.core.exhaustion import WAIT_SECONDS, exhaustion_of
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.limits import World
from penstock.core.messages import Message
from penstock.engine.bus import Bus, LiveReply
from penstock.engine.dialogue import Dialogue, Round
from penstock.engine.ledger import Occurrences
from penstock.models.image_rules import READS_ALL, FileRules
from penstock.models.model import ModelRequest, spent, wait_seconds, without_carries
from penstock.models.prices import UNKNOWN
from penstock.tools.cancellable import Deadline
from penstock.tools.hooks.reply_hooks import withheld

log = logging.getLogger(__name__)

CLOSING_TOKENS = 512
"""Output tokens of a closing call when the budget does not allow more."""
_SHOWN_AFTER_SECONDS = 0.02
"""Calls that end earlier are written together with their outcome, in one commit."""


class Turns:
    """The turns of one task, one after the other."""

    __slots__ = (
        *("_agent_model", "_bus", "_call_runner", "_guard", "_ledger", "_restart", "_task"),
        *("_transcript", "_world", "dialogue"),
    )

    def __init__(
        self,
        agent_model: AgentModel,
        call_runner: CallRunner,
        transcript: Transcript,
        *,
        world: World,
        bus: Bus,
        restart: bool,
    ) -> None:
        self._agent_model = agent_model
        self._call_runner = call_runner
        self._guard: LoopGuard | None = None
        """The guard after a round of calls; None before."""
        self._ledger = call_runner.ledger
        self._task = call_runner.ledger.task
        self._transcript = transcript
        self.dialogue = transcript.dialogue
        self._world = world
        self._bus = bus
        self._restart = restart
        """Whether a client may have seen a part of a reply that was cut."""
        self._replay()

    async def think(self, *, closing: str | None = None) -> ReplyReceived | None:
        """Ask the model, again if a hook sends its reply back. Returns None if the budget ends it.

        `closing` is the reason for a last call without tools. Raises ModelError when all retries
        failed, HookRefused and HookFailed.
        """
        ledger, hooks, dialogue = self._ledger, self._agent_model.hooks, self.dialogue
        while True:
            offer, messages = self._messages()
            if (reserved := self._reserve(self._transcript.estimated, closing)) is None:
                return None
            sent_back = None
            try:
                request = self._request(
                    offer, messages, reserved=reserved, closing=closing is not None
                )
                # Before the deadline starts: a hook that hangs ends by its own, which names it.
                if hooks is not None:
                    request = await hooks.before_model(request, dialogue.iteration + 1)
                if (reply := await self._ask(request, closing)) is None:
                    return None
                if hooks is not None:
                    reply, sent_back = await hooks.after_reply(reply)
            except ContextTooLarge as error:
                self._shorten_more(offer, error)
                continue
            finally:
                # Also after an error: a reservation that stayed would block parallel work for good.
                ledger.budget.settle_model(reserved.tokens, reserved.cost_usd)
            self._transcript.measure(reply.usage.input_tokens)
            # The reply is in the log before its calls start: a replay finds the same paths.
            if reply.carry is None and not reply.carry_dropped and dialogue.messages.cached is None:
                ledger.add(reply, dialogue.path)
            else:
                reply = self._record(reply)
            if sent_back is None:
                return reply
            self._send_back(sent_back)
            if self._task.cancel_requested:
                raise Cancel

    def _record(self, reply: ReplyReceived) -> ReplyReceived:
        """Add a reply with a carry, or after one that its provider keeps in a cache."""
        path, ledger, now = self.dialogue.path, self._ledger, self._world.clock.now()
        loss = self._transcript.cache_loss(reply, self._agent_model, at=now)
        reply = record_carry(reply, ledger, path, most=self._world.limits.carry_bytes)
        if loss is not None:
            ledger.note(path, loss)
        return reply

    def _messages(self) -> tuple[ToolOffer, Sequence[Message]]:
        """Return the offer and the messages of the next request. Raises ContextTooLarge."""
        transcript, told = self._transcript, self.dialogue.messages.told
        selected = self._ledger.held.state.selected
        offer = self._agent_model.offer(self.dialogue, selected)
        transcript.begin(offer.system)
        messages = transcript.messages()
        if transcript.is_crowded:
            messages = self._shorten(transcript.cut(offer.definitions))
        while transcript.estimated > transcript.limit:
            messages = self._shorten_more(
                offer,
                ContextTooLarge(
                    f"the conversation has about {transcript.estimated} tokens; the model reads "
                    f"{transcript.limit}. Start a new conversation, or shorten the message."
                ),
            )
        if self.dialogue.messages.told is not told:  # the system prompt has what a cut took
            offer = self._agent_model.offer(self.dialogue, selected)
        return offer, messages

    def _request(
        self,
        offer: ToolOffer,
        messages: Sequence[Message],
        *,
        reserved: ReservedModelCall,
        closing: bool,
    ) -> ModelRequest:
        start = self._transcript.loop_start
        request = self._agent_model.request(
            offer, messages, loop_start=start, reserved=reserved, closing=closing
        )
        return replace(request, has_previews=True) if self.dialogue.has_previews else request

    def _shorten_more(self, offer: ToolOffer, error: ContextTooLarge) -> Sequence[Message]:
        """Leave out about half of what was refused, and return the rest.

        Raises the error the second time for a request.
        """
        dialogue = self.dialogue
        cut = None
        if dialogue.too_long_at != dialogue.iteration:
            cut = self._transcript.cut(offer.definitions, too_long=True)
        messages = self._shorten(cut)
        if cut is None:
            raise error
        return messages

    def _shorten(self, cut: Summarised | None) -> Sequence[Message]:
        """Record a cut, if there is one, and return the messages after it."""
        if cut is not None:
            self._ledger.add(cut, self.dialogue.path)
            # The system prompt has the instructions of skills that the cut took, and needs room.
            selected = self._ledger.held.state.selected
            self._transcript.begin(self._agent_model.offer(self.dialogue, selected).system)
        return self._transcript.again()

    def _send_back(self, message: str) -> None:
        """Let the model read why its newest reply does not count."""
        if (reply := self.dialogue.reply) is None:
            return
        if not reply.calls:
            self.remind(message)
            return
        call_runner, round_ = self._call_runner, self.dialogue.rounds[-1]
        guard = call_runner.begin_round()
        for call in self._admitted(round_, self._occurrences(round_), guard):
            call_runner.invoker.refuse(call, call_runner.ledger, ModelRetry(message), "")
        self._end_round(round_, guard)

    def remind(self, message: str, *, is_note: bool = False) -> None:
        """Add a message that asks the model to end its work as its task wants it.

        `is_note`: it says that only an answer is left, and does not count as a reminder.
        """
        self._ledger.add(AgentReminded(message=message, is_note=is_note), self.dialogue.path)

    async def act(self, round_: Round) -> None:
        """Run the calls of a reply until each is settled.

        Raises Suspend if some wait for a person. The others are settled before that.
        """
        call_runner, seen = self._call_runner, self._occurrences(round_)
        guard = call_runner.begin(round_.reply.calls, seen)
        if guard is not None and (calls := self._admitted(round_, seen, guard)):
            caller = self._agent_model.offer(self.dialogue, round_.selected).caller
            # Readers see a slow call before it ends; a quick one costs no commit of its own.
            submit = self._ledger.held.submit
            timer = asyncio.get_running_loop().call_later(_SHOWN_AFTER_SECONDS, submit)
            try:
                await call_runner.run(calls, caller)
            finally:
                timer.cancel()
        if not call_runner.is_done:
            self._end_round(round_, guard)

    def _occurrences(self, round_: Round) -> Occurrences:
        """Return the counters of equal calls of a reply."""
        place = self.dialogue.path or self._task.task_id
        return self._ledger.occurrences(f"{place}/{round_.reply.iteration}")

    def _end_round(self, round_: Round, guard: LoopGuard | None = None) -> None:
        """Show the outcomes of a reply to the guard, which may not have seen its calls."""
        calls, registry = round_.reply.calls, self._call_runner.invoker.registry
        self._guard = guard = guard or self._call_runner.guard_after(calls)
        outcomes = [round_.settled[call.call_id] for call in calls]
        guard.end_round(calls, outcomes, [registry.effect_of(call.name) for call in calls])

    def take_back(self, *, closing: bool) -> None:
        """Record that the parts of a reply that were streamed are void."""
        iteration = self.dialogue.iteration + (not closing)
        self._ledger.add(ReplyRestarted(iteration=iteration, closing=closing), self.dialogue.path)

    @property
    def blocked(self) -> int:
        """How many calls of this task the guard stopped."""
        return 0 if self._guard is None else self._guard.blocked

    @property
    def is_spent(self) -> bool:
        """Whether the budget of the task is used up."""
        return self._ledger.budget.spent()

    def _reserve(self, tokens: int, closing: str | None) -> ReservedModelCall | None:
        """Reserve a model call, with fewer output tokens for a closing call if needed."""
        card, budget = self._agent_model.model.card, self._ledger.budget
        full = self._agent_model.max_tokens
        for size in (full,) if closing is None else (full, min(full, CLOSING_TOKENS)):
            cost = None if card.prices is UNKNOWN else spent(card, tokens, size).cost_usd
            reserved = ReservedModelCall(size, tokens + size, cost)
            if budget.reserve_model(reserved.tokens, reserved.cost_usd):
                return reserved
        return None

    def _replay(self) -> None:
        """Feed the guard with the rounds that are in the log."""
        for round_ in self.dialogue.rounds:
            if round_.is_settled:
                self._end_round(round_)

    async def _ask(self, request: ModelRequest, closing: str | None) -> ReplyReceived | None:
        """Ask until the reply is complete. Retries temporary failures.

        Returns None, and takes back what was streamed, if the time of the task is up.
        """
        bus, held, budget = self._bus, self._ledger.held, self._ledger.budget
        work = WorkTime(Deadline(asyncio.current_task(), budget.seconds_left()), budget)
        place, path = (held.state.log_id, self._task.task_id), self.dialogue.path
        iteration = self.dialogue.iteration + (closing is None)
        live: LiveReply | None = None
        attempt, is_waiting = 1, False
        try:
            with work.limit:
                while True:
                    if self._restart:
                        self._restart, live = False, None
                        self.take_back(closing=closing is not None)
                    # Not announced again at the same number if nothing of it was streamed.
                    base = await held.commit() if live is None else live.base
                    live = LiveReply(*place, base, iteration, closing is not None, path)
                    bus.begin(live)
                    try:
                        return await self._listen(live, request, closing, work)
                    except ModelError as error:
                        lack = exhaustion_of(error)
                        limits = self._world.limits
                        wait = WAIT_SECONDS if lack else wait_seconds(attempt, error, limits)
                        if wait is None:
                            raise
                        if lack is None:  # otherwise this machine lacks something, not the model
                            attempt += 1
                        elif not is_waiting:  # log once: it may wait for hours, like many others
                            is_waiting = True
                            log.warning("a call of a model waits: %s", lack)
                        self._restart = bool(live.units)
                    finally:
                        bus.end(live)
                    await self._world.clock.sleep(wait)
        except TimeoutError:
            if not work.limit.is_over:
                raise  # the provider's own timeout
            self.take_back(closing=closing is not None)
            return None

    async def _listen(
        self, live: LiveReply, request: ModelRequest, closing: str | None, work: WorkTime
    ) -> ReplyReceived:
        """Ask once; once more without any carry if the provider refuses a carry."""
        agent_model, bus, world = self._agent_model, self._bus, self._world
        if agent_model.hooks is not None and agent_model.hooks.withholds:
            bus, live = withheld(live)
        model, contract = agent_model.model, agent_model.contract
        streamed = contract if contract is not None and contract.streams else None
        try:
            reader = ReplyReader(bus, world, live, work, contract=streamed)
            return await reader.listen(model, request, closing)
        except CarryRefused:
            # Removing only the block that the error names is not enough: later blocks fail too.
            plain = without_carries(request)
            reader = ReplyReader(bus, world, live, work, contract=streamed)
            return replace(await reader.listen(model, plain, closing), carry_dropped=True)

    def _admitted(self, round_: Round, seen: Occurrences, guard: LoopGuard) -> list[Call]:
        """Return the calls to run now. Settles those that the guard or the parser refuses."""
        call_runner, admitted = self._call_runner, []
        for requested in round_.reply.calls:
            text = spelling(requested)
            # Paths and verdicts count all calls, settled ones too: both depend on what came before.
            path = seen.path(requested.name, requested.arguments, text)
            verdict = guard.judge(requested, text)
            if requested.call_id in round_.settled:
                continue
            call = Call(path, requested.name, requested.arguments, 0, requested.call_id)
            if verdict is not None:
                looped = LoopDetected(verdict.message, suggestion=SUGGESTION)
                # Refused calls are settled in the log, too: each call of a reply needs an outcome,
                # or providers reject the next request.
                call_runner.invoker.refuse(call, call_runner.ledger, looped, verdict.detector)
            elif requested.arguments_text is not None:
                error = malformed(requested, JSON_DEPTH)
                call_runner.invoker.refuse(call, call_runner.ledger, error, "")
            else:
                admitted.append(call)
        return admitted


def open_turns(
    agent_model: AgentModel,
    call_runner: CallRunner,
    dialogue: Dialogue,
    *,
    world: World,
    bus: Bus,
    is_new: bool,
) -> Turns:
    """Return the turns of a task that starts (`is_new`) or resumes."""
    held, reply = call_runner.ledger.held, dialogue.reply
    selected = dialogue.rounds[-1].selected if dialogue.rounds else held.state.selected
    return Turns(
        agent_model,
        call_runner,
        transcript_for(agent_model, dialogue, agent_model.offer(dialogue, selected)),
        world=world,
        bus=bus,
        # Pieces may have been shown only if an earlier activation was asking the model here.
        restart=not (is_new or held.begins) and (reply is None or not reply.calls),
    )


def transcript_for(agent_model: AgentModel, dialogue: Dialogue, offer: ToolOffer) -> Transcript:
    """Return a dialogue as messages for a model, by all that decides how many it reads."""
    card, settings = agent_model.model.card, agent_model.settings
    reads = READS_ALL
    if dialogue.messages.files or settings.tool_images:
        reads = FileRules(card, tool_images=settings.tool_images)
    limit = room(card.context_tokens, settings.context_max_tokens, agent_model.max_tokens)
    return Transcript(dialogue, system=offer.system, limit=limit, reads=reads)
