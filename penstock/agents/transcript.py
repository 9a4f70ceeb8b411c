"""The part of a conversation that one model reads: the newest messages that fit.

It guarantees that a tool call is never separated from its result, that the current task is kept
whole as long as possible, and that what is trimmed depends on the log alone. A process that takes
over sends the same messages.

How: first whole earlier tasks are dropped, oldest first, until the request is at 80 % of the limit.
Then results of the current task are replaced by their previews, oldest first, but not those of the
last round. Sizes are estimates, which the provider's own counts correct (`measure`). To get the
same state as before, `_catch_up` repeats the trimming of earlier requests from their recorded
sizes. The state at the start of the task is kept: a turn's cost does not depend on the history.

Proof: `tests/agents/test_transcript.py::test_trimming_depends_only_on_the_log`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import overload

from penstock.agents.tool_offer import REPLY_TOKENS
from penstock.core.errors import ContextTooLarge
from penstock.core.events.events import CallSettled
from penstock.core.messages import AssistantMessage, Message, ToolMessage, file_tokens
from penstock.core.text import cut, estimate_tokens
from penstock.engine.dialogue import Dialogue, FileEntry, Trimming
from penstock.models.image_rules import READS_ALL, FileRules

_MARGIN = 0.05
_AFTER_TRIMMING = 0.8
"""Share of the limit that trimming aims at, so that not every following turn trims again."""
_PREVIEW = 200
WINDOW_TOKENS = 32_000
"""Context window of a model that declares none in `context_tokens`."""


class MessageWindow(Sequence[Message]):
    """The end of a list of messages, without a copy."""

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
        """Return a message, or a list for a slice."""
        if isinstance(index, slice):
            return self._messages[self._start :][index]
        return self._messages[index + self._start if index >= 0 else index]


class Transcript:
    """A session as messages for one model, trimmed to `limit` tokens."""

    __slots__ = (
        *("_files", "_fixed", "_limit", "_system", "_trimming"),
        *("dialogue", "estimated", "loop_start"),
    )

    def __init__(
        self, dialogue: Dialogue, *, system: str, limit: int, reads: FileRules = READS_ALL
    ) -> None:
        self.dialogue = dialogue
        self._files = _FileTokens(dialogue.messages.files, reads)
        self._limit = limit
        self._system = system
        self._fixed = estimate_tokens(system)
        """Estimated tokens of a request without its messages."""
        self.loop_start = 0
        """The index of the current task's first message in the newest request."""
        self.estimated = 0
        """Estimated tokens of the newest request."""
        self._trimming = Trimming()
        self._catch_up()

    def begin(self, system: str) -> None:
        """Set the system prompt of the next request."""
        # Compared by identity: offers keep their prompt, and a long text need not be compared.
        if system is not self._system:
            self._fixed += estimate_tokens(system) - estimate_tokens(self._system)
            self._system = system

    def measure(self, input_tokens: int) -> None:
        """Correct the estimate with the tokens that the provider counted for the last request."""
        if input_tokens:
            now = self._trimming
            # Each count replaces the one before: corrections must not add up.
            now.estimate = self.estimated - now.excess
            now.excess = input_tokens - now.estimate

    def messages(self) -> Sequence[Message]:
        """Return the messages of the next request.

        Raises ContextTooLarge if the current task alone does not fit.
        """
        history = self.dialogue.messages
        messages = self._fit(len(history.entries), history.tokens)
        first = history.boundaries[-1].index if history.boundaries else 0
        self.loop_start = max(first - self._trimming.start, 0)
        if self.estimated > self._limit:
            raise ContextTooLarge(
                f"the conversation has about {self.estimated} tokens; the model reads "
                f"{self._limit}. Start a new conversation, or shorten the message."
            )
        return messages

    def _catch_up(self) -> None:
        """Repeat the trimming of earlier requests, starting from a kept state if there is one."""
        history, reader = self.dialogue.messages, (self._fixed, self._limit, self._files.key)
        first = history.boundaries[-1].index if history.boundaries else 0
        earlier = bisect_right(history.requests, first, key=itemgetter(0))
        begin = 0
        # A state that was kept for another prompt or limit does not apply to this reader.
        if history.known is not None and history.known[0] == reader and history.known[1] <= earlier:
            _, begin, known = history.known
            self._trimming = known.copy()
        self._replay(begin, earlier)
        history.known = reader, earlier, self._trimming.copy()
        self._replay(earlier, len(history.requests))

    def _replay(self, begin: int, end: int) -> None:
        for count, tokens, counted in self.dialogue.messages.requests[begin:end]:
            self._fit(count, tokens)
            self.measure(counted)

    def _fit(self, count: int, tokens: int) -> Sequence[Message]:
        """Return the part of the first `count` messages (`tokens` in total) that fits."""
        if self._about(count, tokens) > self._limit:
            self._drop_tasks(count, tokens)
        self.estimated = self._about(count, tokens)
        if self.estimated > self._limit:
            return self._without_results(count)
        if not self._trimming.start:
            return self.dialogue.messages.entries
        return MessageWindow(self.dialogue.messages.entries, self._trimming.start)

    def _about(self, count: int, tokens: int) -> int:
        now = self._trimming
        text = tokens - now.dropped + self._fixed + now.excess
        return text + self._files.between(now.start, count) if self._files.files else text

    def _drop_tasks(self, count: int, tokens: int) -> None:
        now, enough = self._trimming, self._limit * _AFTER_TRIMMING
        for boundary in islice(self.dialogue.messages.boundaries, now.boundary, None):
            if boundary.index >= count or self._about(count, tokens) <= enough:
                break
            now.boundary += 1
            if boundary.index > now.start:
                now.drop(boundary)

    def _without_results(self, count: int) -> list[Message]:
        kept = list(self.dialogue.messages.entries[self._trimming.start : count])
        newest = max((i for i, m in enumerate(kept) if isinstance(m, AssistantMessage)), default=0)
        settled = {
            call_id: outcome
            for round_ in self.dialogue.rounds
            for call_id, outcome in round_.settled.items()
        }
        for index, message in enumerate(kept[:newest]):
            if self.estimated <= self._limit:
                break
            if isinstance(message, ToolMessage):
                kept[index] = short = _removed(message, settled.get(message.call_id))
                self.estimated -= estimate_tokens(message.content) - estimate_tokens(short.content)
        return kept


class _FileTokens:
    """The tokens of files that a model reads, above those that the messages count for them."""

    __slots__ = ("_indexes", "_rules", "_sums", "files")

    def __init__(self, files: list[FileEntry], rules: FileRules) -> None:
        self.files = files
        self._rules = rules
        self._indexes: list[int] = []
        self._sums = [0]

    @property
    def key(self) -> str:
        """A text that is equal for equal rules; empty without files."""
        return self._rules.key if self.files else ""

    def between(self, start: int, count: int) -> int:
        """Return the sum over the messages from `start` to before `count`."""
        for entry in self.files[len(self._indexes) :]:
            counted = 0 if entry.is_of_tool else file_tokens(entry.file)
            read = self._rules.tokens(entry.file, is_of_tool=entry.is_of_tool)
            self._indexes.append(entry.index)
            self._sums.append(self._sums[-1] + read - counted)
        end = self._sums[bisect_left(self._indexes, count)]
        return end - self._sums[bisect_left(self._indexes, start)]


def _removed(message: ToolMessage, settled: CallSettled | None) -> ToolMessage:
    preview = cut((settled.preview if settled else None) or message.content, _PREVIEW)
    artifact = f"; artifact {settled.artifact_id}" if settled and settled.artifact_id else ""
    text = f"[result removed: {preview}{artifact}]"
    return ToolMessage(message.call_id, message.name, text, message.ok)


def room(window: int | None, configured: int | None, max_tokens: int | None) -> int:
    """Return how many tokens a request may have.

    The agent's setting wins, then the model's context window without the reply and a margin for
    the estimate. A model without a known window gets WINDOW_TOKENS.
    """
    if configured is not None:
        return configured
    if window is None:
        return WINDOW_TOKENS
    return max(int(window * (1 - _MARGIN)) - (max_tokens or REPLY_TOKENS), 1)
