"""What a model gets to read of a session: the newest part that fits, never half a call."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import overload

from penstock.core.errors import ContextTooLarge
from penstock.core.events.events import CallSettled
from penstock.core.messages import AssistantMessage, Message, ToolMessage
from penstock.core.text import cut, estimate_tokens
from penstock.engine.dialogue import Dialogue, Trimming

_MARGIN = 0.05
_AFTER_TRIMMING = 0.8
_PREVIEW = 200


class MessageWindow(Sequence[Message]):
    """The end of a list, without a copy of it."""

    __slots__ = ("_messages", "_start")

    def __init__(self, messages: list[Message], start: int) -> None:
        self._messages = messages
        self._start = start

    def __len__(self) -> int:
        """Return how many messages are in the window."""
        return len(self._messages) - self._start

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages, oldest first."""
        messages = self._messages
        for index in range(self._start, len(messages)):
            yield messages[index]

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        """Return a message, or a list of some."""
        if isinstance(index, slice):
            return self._messages[self._start :][index]
        return self._messages[index + self._start if index >= 0 else index]


class Transcript:
    """A session as messages for one model, trimmed to what it can read.

    Whole earlier tasks are dropped first, oldest first; then results of the current task. What is
    dropped depends on the log alone.
    """

    __slots__ = ("_fixed", "_limit", "_system", "_trimming", "dialogue", "estimated")

    def __init__(self, dialogue: Dialogue, *, system: str, limit: int) -> None:
        self.dialogue = dialogue
        self._limit = limit
        self._system = system
        self._fixed = estimate_tokens(system)
        """What a request has besides its messages, by estimate."""
        self.estimated = 0
        """About how many tokens the newest request has."""
        self._trimming = Trimming()
        self._catch_up()

    def begin(self, system: str) -> None:
        """Make room for what the next request begins with."""
        if system is not self._system:
            self._fixed += estimate_tokens(system) - estimate_tokens(self._system)
            self._system = system

    def measure(self, input_tokens: int) -> None:
        """Take in how many tokens the provider counted for the last request."""
        if input_tokens:
            now = self._trimming
            now.estimate = self.estimated - now.excess
            now.excess = input_tokens - now.estimate

    def messages(self) -> Sequence[Message]:
        """Return what the model reads now.

        Raises ContextTooLarge when even the current task alone does not fit.
        """
        said = self.dialogue.said
        messages = self._fit(len(said.messages), said.tokens)
        if self.estimated > self._limit:
            raise ContextTooLarge(
                f"the conversation has about {self.estimated} tokens; the model reads "
                f"{self._limit}. Begin a new conversation, or shorten the message."
            )
        return messages

    def _catch_up(self) -> None:
        """Trim as the requests before this one were, from those on that are known already."""
        said, whom = self.dialogue.said, (self._fixed, self._limit)
        first = said.boundaries[-1].index if said.boundaries else 0
        earlier = bisect_right(said.requests, first, key=itemgetter(0))
        begin = 0
        if said.known is not None and said.known[0] == whom and said.known[1] <= earlier:
            _, begin, known = said.known
            self._trimming = known.copy()
        self._replay(begin, earlier)
        said.known = whom, earlier, self._trimming.copy()
        self._replay(earlier, len(said.requests))

    def _replay(self, begin: int, end: int) -> None:
        for count, tokens, counted in self.dialogue.said.requests[begin:end]:
            self._fit(count, tokens)
            self.measure(counted)

    def _fit(self, count: int, tokens: int) -> Sequence[Message]:
        """Return what a request has of the first so many messages, which are so many tokens."""
        if self._about(tokens) > self._limit:
            self._drop_tasks(count, tokens)
        self.estimated = self._about(tokens)
        if self.estimated > self._limit:
            return self._without_results(count)
        if not self._trimming.start:
            return self.dialogue.said.messages
        return MessageWindow(self.dialogue.said.messages, self._trimming.start)

    def _about(self, tokens: int) -> int:
        now = self._trimming
        return tokens - now.dropped + self._fixed + now.excess

    def _drop_tasks(self, count: int, tokens: int) -> None:
        now, enough = self._trimming, self._limit * _AFTER_TRIMMING
        for boundary in islice(self.dialogue.said.boundaries, now.boundary, None):
            if boundary.index >= count or self._about(tokens) <= enough:
                break
            now.boundary += 1
            if boundary.index > now.start:
                now.drop(boundary)

    def _without_results(self, count: int) -> list[Message]:
        kept = list(self.dialogue.said.messages[self._trimming.start : count])
        newest = max((i for i, m in enumerate(kept) if isinstance(m, AssistantMessage)), default=0)
        settled = {
            call_id: each
            for round_ in self.dialogue.rounds
            for call_id, each in round_.settled.items()
        }
        for index, message in enumerate(kept[:newest]):
            if self.estimated <= self._limit:
                break
            if isinstance(message, ToolMessage):
                kept[index] = short = _removed(message, settled.get(message.call_id))
                self.estimated -= estimate_tokens(message.content) - estimate_tokens(short.content)
        return kept


def _removed(message: ToolMessage, settled: CallSettled | None) -> ToolMessage:
    preview = cut((settled.preview if settled else None) or message.content, _PREVIEW)
    artifact = f"; artifact {settled.artifact_id}" if settled and settled.artifact_id else ""
    text = f"[result removed: {preview}{artifact}]"
    return ToolMessage(message.call_id, message.name, text, message.ok)


def room(window: int | None, asked: int | None, max_tokens: int, *, usual: int) -> int:
    """Return how many tokens a request may have: as the agent says, or as the model can read.

    `usual` stands for a model of which nobody says how much it can read.
    """
    if asked is not None:
        return asked
    if window is None:
        return usual
    return max(int(window * (1 - _MARGIN)) - max_tokens, 1)
