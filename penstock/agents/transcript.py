"""The messages that a model reads, and when they must become fewer.

It guarantees that the beginning of a request changes rarely and in one large step, because each
change costs the provider's cache and on some models the thinking that is bound to it; that a call
is never separated from its result; and that a process that takes over sends the same messages.

How: sizes are estimates, which the provider's own counts correct (`measure`). A task whose first
request passes 80 % of the limit, and any later request that passes the limit, needs a `cut`: an
event that the fold of the log applies (`engine/dialogue`), so no process decides a second time.
Between tasks, results of earlier tasks become previews, then the oldest tasks are left out, down to
half of the limit. Within a task, earlier ones stay as they are if previews of the task's own
results are enough; those of the last round stay whole.

Proof: tests/agents/test_transcript.py and tests/journeys/test_long_conversations.py.
"""

from bisect import bisect_left
from collections.abc import Sequence

from msgspec.structs import replace

from penstock.agents.tool_offer import REPLY_TOKENS, AgentModel
from penstock.core.clock import Moment
from penstock.core.events.events import NoteEmitted, ReplyReceived
from penstock.core.events.history_events import Summarised
from penstock.core.ids import TaskId
from penstock.core.messages import AssistantMessage, Message, ToolMessage, file_tokens
from penstock.core.text import estimate_tokens
from penstock.engine.dialogue import SUMMARY, Dialogue, FileEntry, MessageList
from penstock.models.image_rules import READS_ALL, FileRules
from penstock.models.model import ToolDefinition, tool_tokens

_MARGIN = 0.05
START_SHARE = 0.8
"""The share of the limit at which the history of a task that starts is shortened."""
TARGET_SHARE = 0.5
"""The share of the limit that one step leaves at most."""
WINDOW_TOKENS = 32_000
"""Context window of a model that declares none in `context_tokens`."""


LOST_TOKENS, LOST_SHARE = 2_000, 0.05
"""Tokens, and the share of the request before, that a notice about a lost cache needs."""
CACHED_MS = {None: 300_000, "5m": 300_000, "1h": 3_600_000}
"""How long a provider keeps a request, by `cache_ttl`."""


class Transcript:
    """A session as messages for one model that reads `limit` tokens."""

    __slots__ = (
        *("_constant", "_excess", "_files", "_fixed", "_has_lost", "_reads", "_start", "_system"),
        *("dialogue", "estimated", "limit", "loop_start"),
    )

    def __init__(
        self, dialogue: Dialogue, *, system: str, limit: int, reads: FileRules = READS_ALL
    ) -> None:
        self.dialogue = dialogue
        self.limit = limit
        self.loop_start = 0
        """The index of the current task's first message in the newest request."""
        self.estimated = 0
        """Estimated tokens of the newest request."""
        self._has_lost = False
        self._start = limit * START_SHARE
        self._reads = reads
        self._system = system
        self._fixed = estimate_tokens(system)
        """Estimated tokens of the system prompt."""
        self._constant = self._fixed
        """The same with the tools, once they were needed."""
        self._open()

    def _open(self) -> None:
        """Take the provider's newest count from the log."""
        history = self.dialogue.messages
        self._files = _FileTokens(history.files, self._reads)
        self._excess = 0
        """Tokens that the provider counted above the estimate."""
        if history.requests:
            count, tokens, counted = history.requests[-1]
            self._excess = counted - self._about(count, tokens)

    def begin(self, system: str) -> None:
        """Set the system prompt of the next request."""
        # Compared by identity: offers keep their prompt, and a long text need not be compared.
        if system is not self._system:
            self._fixed += estimate_tokens(system) - estimate_tokens(self._system)
            self._system = system

    def measure(self, input_tokens: int) -> None:
        """Correct the estimate with the tokens that the provider counted for the last request."""
        if input_tokens * 2 >= self.dialogue.messages.tokens:  # `add_reply` has the same rule
            # Each count replaces the one before: corrections must not add up.
            self._excess += input_tokens - self.estimated

    def messages(self) -> Sequence[Message]:
        """Return the messages of the next request, which may be too many (`is_crowded`)."""
        history = self.dialogue.messages
        self.estimated = self._about(len(history.entries), history.tokens)
        self.loop_start = history.boundaries[-1].index if history.boundaries else 0
        return history.entries

    @property
    def is_crowded(self) -> bool:
        """Whether the messages must become fewer before the next request."""
        if self.estimated <= self._start or self.estimated > self.limit:
            return self.estimated > self.limit
        history = self.dialogue.messages
        # Within a task the beginning stays as it is for as long as possible.
        is_first = self.dialogue.iteration == 0 and history.earlier
        return is_first and history.shortened_for != history.boundaries[-1].task_id

    def cut(
        self, tools: Sequence[ToolDefinition], *, too_long: bool = False, spare: int = 0
    ) -> Summarised | None:
        """Return the event that makes the messages fewer; None if nothing does.

        `tools` are those of the request. `too_long` says that the provider refused it, whatever the
        estimate is. `spare` is the room for a summary of the tasks that are left out.
        """
        history = self.dialogue.messages
        # Counted here alone: each tool has to be encoded for it.
        self._constant = self._fixed + sum(map(tool_tokens, tools))
        most = min(self.limit, self.estimated) if too_long else self.limit
        enough = most * TARGET_SHARE - spare
        event = Summarised(
            results=self._results(enough), constant=self._constant, too_long=too_long
        )
        if event.results:
            within = replace(event, keeps_earlier=True)
            if self._size(history.shortened(within).tokens) <= enough or not history.earlier:
                return within
        if not history.earlier:
            return None
        short = history.shortened(event)
        if self._size(short.tokens) > enough:
            event = replace(event, tasks=self._oldest(short, enough))
        return event if event.tasks or short.tokens < history.tokens else None

    def again(self) -> Sequence[Message]:
        """Return the messages after a cut."""
        self._open()
        return self.messages()

    def cache_loss(
        self, reply: ReplyReceived, asked: AgentModel, *, at: Moment
    ) -> NoteEmitted | None:
        """Return a notice, once, if the provider's cache did not have the request before."""
        before, usage = self.dialogue.messages.cached, reply.usage
        if before is None or self._has_lost or reply.carry_dropped:
            return None
        lost = before.tokens - usage.cached_tokens
        model = reply.model or asked.model.card.model_id
        is_kept = model == before.model and at - before.at < CACHED_MS[asked.cache_ttl]
        if not is_kept or lost < LOST_TOKENS or lost <= before.tokens * LOST_SHARE:
            return None
        self._has_lost = True
        message = (
            f"the provider read {usage.cached_tokens} tokens of the request from its cache; the "
            f"request before had {before.tokens}. The beginning of the request has changed, such "
            "as tools, instructions or a level of thinking, or the provider dropped it"
        )
        payload = {"cachedTokens": usage.cached_tokens, "expectedTokens": before.tokens}
        return NoteEmitted(event_type="cache_lost", message=message, payload=payload)

    def _about(self, count: int, tokens: int) -> int:
        text = tokens + self._fixed + self._excess
        return text + self._files.before(count) if self._files.files else text

    def _size(self, tokens: int) -> float:
        """Estimate the next request if its messages had so many tokens."""
        now = self.dialogue.messages.tokens
        above = self.estimated - now
        constant = min(max(above, self._fixed), self._constant)
        return tokens + constant + max(above - constant, 0) * tokens / max(now, 1)

    def _results(self, enough: float) -> int:
        """Return how many results of the task must become previews, oldest first."""
        history = self.dialogue.messages
        entries, previews = history.entries, history.previews
        newest = max(
            (i for i, m in enumerate(entries) if isinstance(m, AssistantMessage)), default=0
        )
        tokens, results, wanted = history.tokens, 0, 0
        for message in entries[self.loop_start : newest]:
            if self._size(tokens) <= enough:
                break
            if not isinstance(message, ToolMessage):
                continue
            results += 1
            if message.call_id in previews:
                wanted = results
                preview = estimate_tokens(previews[message.call_id])
                tokens -= estimate_tokens(message.content) - preview
        return wanted

    def _oldest(self, short: MessageList, enough: float) -> tuple[TaskId, ...]:
        """Return the oldest tasks, so many that the others are few enough."""
        tasks = [each for each in short.boundaries if each.task_id != SUMMARY]
        above = tasks[0].tokens  # the summary stays
        kept = len(tasks) - 1
        for number, boundary in enumerate(tasks[:-1]):
            if self._size(short.tokens - boundary.tokens + above) <= enough:
                kept = number
                break
        return tuple(each.task_id for each in tasks[:kept])


class _FileTokens:
    """The tokens of files that a model reads, above those that the messages count for them."""

    __slots__ = ("_indexes", "_rules", "_sums", "files")

    def __init__(self, files: list[FileEntry], rules: FileRules) -> None:
        self.files = files
        self._rules = rules
        self._indexes: list[int] = []
        self._sums = [0]

    def before(self, count: int) -> int:
        """Return the sum over the first `count` messages."""
        for entry in self.files[len(self._indexes) :]:
            counted = 0 if entry.is_of_tool else file_tokens(entry.file)
            read = self._rules.tokens(entry.file, is_of_tool=entry.is_of_tool)
            self._indexes.append(entry.index)
            self._sums.append(self._sums[-1] + read - counted)
        return self._sums[bisect_left(self._indexes, count)]


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
