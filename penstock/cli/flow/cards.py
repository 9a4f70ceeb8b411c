"""The steps of a run as cards: who is at work on what, since when, and what it did last."""

from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct, field

from penstock.agents.agent_profile import DisplayCard
from penstock.cli.terminal.plain import compact
from penstock.core.call import FINISH
from penstock.core.events.events import (
    CallSettled,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    TaskEnded,
)
from penstock.core.events.flow_events import AgentStarted, FlowNotified, StepSettled, StepStarted
from penstock.core.events.step import Outcome, StepStatus
from penstock.core.ids import QuestionId
from penstock.engine.bus import Delta, DeltaKind, Live

MOST_KEPT = 12
"""Of what a card did last."""
MOST_SAID = 4000
"""Characters of what an agent is saying."""
CardOf = Callable[[str], DisplayCard]
"""How displays show an agent."""


class CardState(StrEnum):
    """Where a visit stands, in words for people."""

    WORKING = "at work"
    WAITING = "waits for you"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"
    RETRIED = "tried again"
    ABORTED = "aborted"


_AT_WORK = frozenset({CardState.WORKING, CardState.WAITING})
_ENDS = {StepStatus.BLOCKED: CardState.BLOCKED, StepStatus.ABORTED: CardState.ABORTED}


class Activity(Struct, frozen=True):
    """Something an agent did: it said something, called a tool, or got its answer."""

    mark: str
    text: str


class StepCard(Struct, kw_only=True):
    """One visit of a step, as far as it has come."""

    step_id: str
    visit: int
    agent: str
    face: DisplayCard
    began: int
    state: CardState = CardState.WORKING
    ended: int | None = None
    """When it was over, or began to wait."""
    duration_ms: int = 0
    """Once it is over: without the time it waited for people."""
    waited: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    turns: int = 0
    calls: int = 0
    files: int = 0
    tool: str = ""
    """What it called last, and what came of it."""
    saying: str = ""
    """What its agent is saying now."""
    activities: deque[Activity] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    touched: int = 0
    """A number that grows: whose is largest did something last."""
    summary: str = ""
    source: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the visit has ended."""
        return self.state not in _AT_WORK

    @property
    def tokens(self) -> int:
        """How many it read and wrote."""
        return self.input_tokens + self.output_tokens

    def milliseconds(self, now: int) -> int:
        """Return how long it was at work."""
        if self.is_over and self.duration_ms:
            return self.duration_ms
        return max((now if self.ended is None else self.ended) - self.began - self.waited, 0)


class LoopRound(Struct, frozen=True):
    """How often a way back was taken, and how often it may be."""

    step_id: str
    iteration: int
    most: int | None
    is_forced: bool = False


def no_card(agent: str) -> DisplayCard:
    """Return a card that says nothing: where agents have no files."""
    return DisplayCard()


class Cards:
    """Folds what happens in a run into cards."""

    def __init__(self, card_of: CardOf = no_card) -> None:
        self._card_of = card_of
        self._by_frame: dict[str, StepCard] = {}
        self._asked: dict[QuestionId, StepCard] = {}
        self._touches = 0
        self.rounds: dict[str, LoopRound] = {}
        """By the frame of the step that leads back, without its visit: flows inside others may have
        steps of the same name."""
        self.settled = 0
        """Visits that are over."""
        self.tokens = 0
        self.began: int | None = None
        self.is_over = False
        """Whether the run has ended."""

    @property
    def all(self) -> Iterator[StepCard]:
        """Every visit, in the order in which they began."""
        return iter(self._by_frame.values())

    def card(self, path: str | None) -> StepCard | None:
        """Return the visit that something happened in."""
        at = path or ""
        while at and at not in self._by_frame:
            at = at.rpartition("/")[0]
        return self._by_frame.get(at)

    def take(self, item: Live) -> StepCard | None:
        """Take in what happened; returns the visit that it happened in, if it did in one."""
        if isinstance(item, Delta):
            return self._say(item)
        if isinstance(item, Record):
            self.began = item.at if self.began is None else self.began
            return self._apply(item)
        return None

    def _apply(self, record: Record) -> StepCard | None:
        event, card = record.event, self.card(record.path)
        match event:
            case StepStarted():
                card = self._start(record, event)
            case TaskEnded():
                self.is_over = True
            case FlowNotified():
                self._tell(event, record)
            case QuestionAsked(question=question):
                card = self.card(question.path)
                if card is not None:
                    self._ask(card, question.question_id, record.at)
            case QuestionAnswered(question_id=question_id):
                card = self._answer(question_id, record.at)
            case _ if card is not None:
                self._work(card, record)
            case _:
                pass
        if card is not None:
            self._touch(card)
        return card

    def _start(self, record: Record, started: StepStarted) -> StepCard:
        card = StepCard(
            step_id=started.step_id,
            visit=started.visit,
            agent=started.agent,
            face=self._card_of(started.agent) if started.agent else DisplayCard(),
            began=record.at,
        )
        self._by_frame[record.path or ""] = card
        return card

    def _ask(self, card: StepCard, question_id: QuestionId, at: int) -> None:
        self._asked[question_id] = card
        if card.state is CardState.WORKING:
            card.state, card.ended = CardState.WAITING, at

    def _answer(self, question_id: QuestionId, at: int) -> StepCard | None:
        card = self._asked.pop(question_id, None)
        is_free = card is not None and not any(each is card for each in self._asked.values())
        if card is not None and is_free and card.state is CardState.WAITING:
            card.waited += at - (at if card.ended is None else card.ended)
            card.state, card.ended = CardState.WORKING, None
        return card

    def _work(self, card: StepCard, record: Record) -> None:
        match record.event:
            case AgentStarted(agent=agent) if record.path in self._by_frame:
                card.agent, card.face = agent, self._card_of(agent)
            case ReplyReceived() as reply:
                self._hear(card, reply)
            case CallSettled(tool_id=tool_id, envelope=envelope) if tool_id != FINISH:
                card.calls += 1
                card.tool = f"{tool_id}: {envelope.status.value}"
                error = f": {envelope.error.message}" if envelope.error else ""
                card.activities.append(Activity("←", f"{card.tool}{error}"))
            case StepSettled() as settled:
                self._settle(card, settled, record.at)
            case _:
                pass

    def _hear(self, card: StepCard, reply: ReplyReceived) -> None:
        usage = reply.usage
        card.input_tokens += usage.input_tokens
        card.output_tokens += usage.output_tokens
        self.tokens += usage.input_tokens + usage.output_tokens
        card.turns += 1
        card.saying = ""
        if reply.text.strip():
            card.activities.append(Activity("“", reply.text))
        for call in reply.calls:
            if call.name != FINISH:
                card.tool = call.name
                card.activities.append(Activity("→", f"{call.name} {compact(call.arguments)}"))

    def _settle(self, card: StepCard, settled: StepSettled, at: int) -> None:
        failed = _ENDS.get(settled.result.status, CardState.FAILED)
        card.state = CardState.DONE if settled.outcome is Outcome.SUCCESS else failed
        if settled.will_retry:
            card.state = CardState.RETRIED
        card.ended, card.duration_ms, card.saying = at, settled.duration_ms, ""
        card.input_tokens = max(card.input_tokens, settled.usage.input_tokens)
        card.output_tokens = max(card.output_tokens, settled.usage.output_tokens)
        card.files = len(settled.result.files)
        card.summary, card.source = settled.result.summary, settled.source
        self.settled += 1

    def _tell(self, told: FlowNotified, record: Record) -> None:
        body = told.body
        if told.kind == "flow_loop_iteration":
            step_id = str(body["stepId"])
            made = LoopRound(
                step_id, body["iteration"], body["maxIterations"], bool(body["forced"])
            )
            self.rounds[(record.path or step_id).rpartition("/")[0]] = made
        elif told.kind == "flow_step_aborted":
            frame = f"{record.path}/{body['stepId']}/"
            for path, card in self._by_frame.items():
                if path.startswith(frame) and not card.is_over:
                    card.state, card.ended = CardState.ABORTED, card.ended or record.at
                    self.settled += 1

    def _say(self, delta: Delta) -> StepCard | None:
        card = self.card(delta.reply.path)
        if card is not None and delta.kind is DeltaKind.TEXT:
            card.saying = (card.saying + delta.text)[-MOST_SAID:]
            self._touch(card)
        return card

    def _touch(self, card: StepCard) -> None:
        self._touches += 1
        card.touched = self._touches
