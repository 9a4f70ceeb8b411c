"""One model answer and its calls."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from penstock.agents.call_runner import CallRunner
from penstock.agents.guard import SUGGESTION, spelling
from penstock.agents.offer import OfferSource, ToolOffer
from penstock.agents.reply_reader import ReplyReader
from penstock.agents.settings import ChatSettings
from penstock.agents.transcript import Transcript, room
from penstock.core.call import Call, ToolCall
from penstock.core.call_errors import InvalidInput, LoopDetected
from penstock.core.errors import ModelError
from penstock.core.events.events import ReplyReceived, ReplyRestarted
from penstock.core.exhaustion import WAIT_SECONDS, exhaustion_of
from penstock.core.json_values.json_text import parse_json
from penstock.core.limits import World
from penstock.core.messages import Message
from penstock.core.text import cut
from penstock.engine.bus import Bus, LiveReply
from penstock.engine.dialogue import Dialogue, Round
from penstock.models.model import Model, ModelRequest
from penstock.models.retry import wait_seconds
from penstock.models.usage import price
from penstock.tools.running.deadline import Deadline

log = logging.getLogger(__name__)

CLOSING_NOTE = (
    "\n\nNo tools are left. Answer the person now, in words, from what you have; "
    "say what is missing."
)
CLOSING_TOKENS = 512
"""What a closing call may write when the budget has no room for more."""
_SHOWN_AFTER_SECONDS = 0.02
"""Quicker calls are written together with their outcome; who watches sees no difference."""


class AgentModel:
    """The model of a task, and what it is told each time."""

    __slots__ = ("model", "offers", "settings")

    def __init__(self, model: Model, offers: OfferSource, settings: ChatSettings) -> None:
        self.model = model
        self.offers = offers
        self.settings = settings

    def request(
        self, offer: ToolOffer, messages: Sequence[Message], *, max_tokens: int, closing: bool
    ) -> ModelRequest:
        """Return what the model gets to see now."""
        return ModelRequest(
            system=offer.system + CLOSING_NOTE if closing else offer.system,
            messages=messages,
            tools=offer.definitions,
            closing=closing,
            temperature=self.settings.llm_temperature,
            max_tokens=max_tokens,
        )


class Turns:
    """The turns of one task, one after the other."""

    __slots__ = (
        "_agent_model",
        "_bus",
        "_call_runner",
        "_restart",
        "_task",
        "_transcript",
        "_world",
        "dialogue",
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
        self._task = call_runner.ledger.task
        self._transcript = transcript
        self.dialogue = transcript.dialogue
        self._world = world
        self._bus = bus
        self._restart = restart
        """A crash may have cut a reply that somebody has seen a part of."""
        self._replay()

    async def think(self, *, closing: str | None = None) -> ReplyReceived | None:
        """Ask the model once; None when the budget does not allow it, or not to its end.

        `closing` is the reason of a call without tools. Raises ModelError when no try is left.
        """
        transcript, ledger = self._transcript, self._call_runner.ledger
        offer = self._agent_model.offers.at(ledger.held.state.selected)
        transcript.begin(offer.system)
        messages = transcript.messages()
        max_tokens = self._reserve(transcript.estimated, closing)
        if max_tokens is None:
            return None
        limit = Deadline(asyncio.current_task(), ledger.budget.seconds_left())
        try:
            request = self._agent_model.request(
                offer, messages, max_tokens=max_tokens, closing=closing is not None
            )
            with limit:
                reply = await self._ask(request, closing)
        except TimeoutError:
            if not limit.is_over:
                raise
            self.take_back(closing=closing is not None)
            return None
        finally:
            ledger.budget.settle_model(*self._weight(transcript.estimated, max_tokens))
        transcript.measure(reply.usage.input_tokens)
        ledger.add(reply, self.dialogue.path)
        return reply

    async def act(self, round_: Round) -> None:
        """Run the calls of a reply together, until each is settled.

        Raises Suspend when some wait for a person; the others are settled then.
        """
        call_runner = self._call_runner
        calls = self._admitted(round_)
        if calls:
            submit = call_runner.ledger.held.submit
            timer = asyncio.get_running_loop().call_later(_SHOWN_AFTER_SECONDS, submit)
            try:
                await call_runner.run(calls, self._agent_model.offers.at(round_.selected).caller)
            finally:
                timer.cancel()
        reply = round_.reply
        outcomes = [round_.settled[call.call_id] for call in reply.calls]
        effects = [call_runner.invoker.registry.effect_of(call.name) for call in reply.calls]
        call_runner.guard.end_round(reply.calls, outcomes, effects)

    def take_back(self, *, closing: bool) -> None:
        """Note that what was shown of a reply does not count."""
        iteration = self.dialogue.iteration + (not closing)
        restarted = ReplyRestarted(iteration=iteration, closing=closing)
        self._call_runner.ledger.add(restarted, self.dialogue.path)

    @property
    def blocked(self) -> int:
        """Calls of this task that the guard stopped."""
        return self._call_runner.blocked

    @property
    def is_spent(self) -> bool:
        """Whether the budget of the task is used up."""
        return self._call_runner.ledger.budget.spent()

    def _reserve(self, tokens: int, closing: str | None) -> int | None:
        """Set a model call aside; returns what it may write, less for a last one in need."""
        most = self._agent_model.settings.llm_max_tokens
        for size in (most,) if closing is None else (most, min(most, CLOSING_TOKENS)):
            if self._call_runner.ledger.budget.reserve_model(*self._weight(tokens, size)):
                return size
        return None

    def _weight(self, tokens: int, size: int) -> tuple[int, float | None]:
        """Return the tokens of a model call that says as much as it may, and what they cost."""
        return tokens + size, price(self._agent_model.model.card, tokens, size)

    def _replay(self) -> None:
        """Show the guard what it saw before the activation began."""
        call_runner = self._call_runner
        for round_ in self.dialogue.rounds:
            if round_.is_settled:
                guard = call_runner.guard
                guard.begin_round()
                for call in round_.reply.calls:
                    guard.judge(call, spelling(call))
                outcomes = [round_.settled[call.call_id] for call in round_.reply.calls]
                effects = [
                    call_runner.invoker.registry.effect_of(call.name) for call in round_.reply.calls
                ]
                guard.end_round(round_.reply.calls, outcomes, effects)

    async def _ask(self, request: ModelRequest, closing: str | None) -> ReplyReceived:
        """Ask until the reply is whole: a failure that may pass is tried again."""
        bus, world, ledger = self._bus, self._world, self._call_runner.ledger
        iteration = self.dialogue.iteration + (closing is None)
        attempt = 1
        is_waiting = False
        base: int | None = None
        while True:
            if self._restart:
                self._restart, base = False, None
                self.take_back(closing=closing is not None)
            if base is None:  # else its beginning was announced there, and stands
                base = await ledger.held.commit()
            live = LiveReply(
                ledger.held.state.log_id,
                self._task.task_id,
                base,
                iteration,
                closing is not None,
                self.dialogue.path,
            )
            bus.begin(live)
            try:
                return await ReplyReader(bus, world, live).listen(
                    self._agent_model.model, request, closing
                )
            except ModelError as error:
                lack = exhaustion_of(error)
                wait = WAIT_SECONDS if lack else wait_seconds(attempt, error, world.limits)
                if wait is None:
                    raise
                if lack is None:  # else it says nothing about the model, so it is no attempt
                    attempt += 1
                elif not is_waiting:  # once a call: it may wait for hours, with many others
                    is_waiting = True
                    log.warning("a call of a model waits: %s", lack)
                self._restart = bool(live.units)
            finally:
                bus.end(live)
            await world.clock.sleep(wait)

    def _admitted(self, round_: Round) -> list[Call]:
        """Return the calls that are to be run now; the others are settled, or are settled here."""
        call_runner, reply = self._call_runner, round_.reply
        seen = call_runner.ledger.occurrences(
            f"{self.dialogue.path or self._task.task_id}/{reply.iteration}"
        )
        call_runner.guard.begin_round()
        admitted = []
        for asked in reply.calls:
            text = spelling(asked)
            path = seen.path(asked.name, text)
            verdict = call_runner.guard.judge(asked, text)
            if asked.call_id in round_.settled:
                continue
            call = Call(path, asked.name, asked.arguments, 0, asked.call_id)
            if verdict is not None:
                looped = LoopDetected(verdict.message, suggestion=SUGGESTION)
                call_runner.invoker.refuse(call, call_runner.ledger, looped, verdict.detector)
            elif asked.arguments_text is not None:
                malformed = _malformed(asked, self._world.limits.json_depth)
                call_runner.invoker.refuse(call, call_runner.ledger, malformed, "")
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
    """Return the turns of an agent that begins now, or of one that is gone on with."""
    held, reply = call_runner.ledger.held, dialogue.reply
    selected = dialogue.rounds[-1].selected if dialogue.rounds else held.state.selected
    settings = agent_model.settings
    limit = room(
        agent_model.model.card.context_tokens,
        settings.context_max_tokens,
        settings.llm_max_tokens,
        usual=world.limits.window_tokens,
    )
    system = agent_model.offers.at(selected).system
    return Turns(
        agent_model,
        call_runner,
        Transcript(dialogue, system=system, limit=limit),
        world=world,
        bus=bus,
        restart=not (is_new or held.begins) and (reply is None or not reply.calls),
    )


def _malformed(call: ToolCall, depth: int) -> InvalidInput:
    text, why = call.arguments_text or "", "cut off by llm_max_tokens"
    if not call.cut:
        why = f"not the JSON of an object, or nested more than {depth} levels deep"
        with suppress(RecursionError):
            try:
                parse_json(text)
            except ValueError as error:
                why = f"not the JSON of an object ({error})"
    return InvalidInput(
        f'the arguments of "{call.name}" are {why}: {cut(text, 200)}',
        suggestion="Call it again with a JSON object that matches its parameters.",
    )
