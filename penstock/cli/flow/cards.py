"""The steps of a run as cards: the agent, its state and time, its tokens and latest activities.

A fold of the run's events and of the pieces of replies. Each visit of a step has a card, found by
the path of its frame; an event inside a step (a call, a nested agent) belongs to the nearest card
above it in the path. The time that a visit waits for a person is not part of its working time.
Costs are constant for an event: a card keeps its last 12 activities and 4,000 characters.

Proof: tests/cli/flow/test_cards.py.
"""

from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct, field

from penstock.agents.agent_profile import DisplayCard
from penstock.cli.terminal.output import compact
from penstock.core.call import FINISH
from penstock.core.events.events import (
    CallSettled,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    TaskEnded,
)
from penstock.core.events.flow_events import (
    AgentStarted,
    FlowNotified,
    Outcome,
    StepSettled,
    StepStarted,
    StepStatus,
)
from penstock.core.ids import QuestionId
from penstock.engine.bus import Delta, DeltaKind, Live

MAX_ACTIVITIES = 12
"""How many recent activities a card keeps."""
MAX_REPLY_CHARS = 4000
"""How many characters of the current reply a card keeps."""
CardOf = Callable[[str], DisplayCard]
"""Returns the display card (label, colour, avatar) of an agent."""


class CardState(StrEnum):
    """The state of a visit, as text for people."""

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
    """Something an agent did: it wrote text, called a tool, or received a result."""

    mark: str
    text: str


class StepCard(Struct, kw_only=True):
    """One visit of a step, up to the newest event."""

    step_id: str
    visit: int
    agent: str
    face: DisplayCard
    began: int
    state: CardState = CardState.WORKING
    ended: int | None = None
    """When the visit ended, or started to wait for a person."""
    duration_ms: int = 0
    """Set at the end: the working time, without waiting for people."""
    waited: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    turns: int = 0
    calls: int = 0
    files: int = 0
    tool: str = ""
    """The last called tool, with its status once it has returned."""
    saying: str = ""
    """The unfinished reply of its agent."""
    activities: deque[Activity] = field(default_factory=lambda: deque(maxlen=MAX_ACTIVITIES))
    touched: int = 0
    """The number of the last update; the card with the largest number was active last."""
    summary: str = ""
    source: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the visit has ended."""
        return self.state not in _AT_WORK

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def milliseconds(self, now: int) -> int:
        """Return the working time so far."""
        if self.is_over and self.duration_ms:
            return self.duration_ms
        return max((now if self.ended is None else self.ended) - self.began - self.waited, 0)


class LoopRound(Struct, frozen=True):
    """How many rounds of a loop were started, and how many are allowed."""

    step_id: str
    iteration: int
    most: int | None
    is_forced: bool = False


def no_card(agent: str) -> DisplayCard:
    """Return an empty display card, for agents without files."""
    return DisplayCard()


class Cards:
    """Folds the events of a run into cards."""

    def __init__(self, card_of: CardOf = no_card) -> None:
        self._card_of = card_of
        self._by_frame: dict[str, StepCard] = {}
        self._asked: dict[QuestionId, StepCard] = {}
        self._touches = 0
        self.rounds: dict[str, LoopRound] = {}
        """By the frame of the step that jumps back, without its visit number. Not by step id:
        nested flows may have steps of the same name."""
        self.settled = 0
        """Number of ended visits."""
        self.tokens = 0
        self.began: int | None = None
        self.is_over = False
        """Whether the run has ended."""

    @property
    def all(self) -> Iterator[StepCard]:
        """All visits, in the order of their start."""
        return iter(self._by_frame.values())

    def card(self, path: str | None) -> StepCard | None:
        """Return the card of the nearest visit at or above a path."""
        frame = path or ""
        while frame and frame not in self._by_frame:
            frame = frame.rpartition("/")[0]
        return self._by_frame.get(frame)

    def take(self, item: Live) -> StepCard | None:
        """Apply an event or a piece of a reply; return the visit that it belongs to, if any."""
        if isinstance(item, Delta):
            return self._add_text(item)
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
                self._notify(event, record)
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
                self._add_reply(card, reply)
            case CallSettled(tool_id=tool_id, envelope=envelope) if tool_id != FINISH:
                card.calls += 1
                card.tool = f"{tool_id}: {envelope.status.value}"
                error = f": {envelope.error.message}" if envelope.error else ""
                card.activities.append(Activity("←", f"{card.tool}{error}"))
            case StepSettled() as settled:
                self._settle(card, settled, record.at)
            case _:
                pass

    def _add_reply(self, card: StepCard, reply: ReplyReceived) -> None:
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

    def _notify(self, notice: FlowNotified, record: Record) -> None:
        body = notice.body
        if notice.kind == "flow_loop_iteration":
            step_id = str(body["stepId"])
            loop_round = LoopRound(
                step_id, body["iteration"], body["maxIterations"], bool(body["forced"])
            )
            self.rounds[(record.path or step_id).rpartition("/")[0]] = loop_round
        elif notice.kind == "flow_step_aborted":
            frame = f"{record.path}/{body['stepId']}/"
            for path, card in self._by_frame.items():
                if path.startswith(frame) and not card.is_over:
                    card.state, card.ended = CardState.ABORTED, card.ended or record.at
                    self.settled += 1

    def _add_text(self, delta: Delta) -> StepCard | None:
        card = self.card(delta.reply.path)
        if card is not None and delta.kind is DeltaKind.TEXT:
            card.saying = (card.saying + delta.text)[-MAX_REPLY_CHARS:]
            self._touch(card)
        return card

    def _touch(self, card: StepCard) -> None:
        self._touches += 1
        card.touched = self._touches
