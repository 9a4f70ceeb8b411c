"""One agent at work: what was said to it, and the turns it took."""

from msgspec import Struct, field

from penstock.core.call import CallPath, ToolCall
from penstock.core.events.events import CallSettled, ReplyReceived
from penstock.core.ids import CallId, TaskId
from penstock.core.json_values.canonical import compact
from penstock.core.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage
from penstock.core.text import estimate_tokens


class Round(Struct):
    """One reply that asked for calls, and what became of them."""

    reply: ReplyReceived
    settled: dict[CallId, CallSettled] = field(default_factory=dict)
    selected: tuple[str, ...] = ()
    """What the session had selected when the model asked for them."""

    @property
    def is_settled(self) -> bool:
        """Whether every call has its outcome."""
        return len(self.settled) == len(self.reply.calls)

    @property
    def open_calls(self) -> list[ToolCall]:
        """The calls without an outcome, in the order in which they were asked for."""
        return [call for call in self.reply.calls if call.call_id not in self.settled]


class TaskBoundary(Struct):
    """Where a task's messages begin, and how many tokens stand before them."""

    task_id: TaskId
    index: int
    tokens: int


class Trimming(Struct):
    """What was left out of the newest request, and how far its estimate was off."""

    start: int = 0
    """The oldest message that is kept."""
    boundary: int = 0
    """The first boundary behind it."""
    dropped: int = 0
    """Tokens before it, by estimate."""
    estimate: int = 0
    """Of the request that the provider counted last, for as much of it as is kept."""
    excess: int = 0
    """How many tokens more than the estimate that are."""

    def copy(self) -> "Trimming":
        """Return the same, to be gone on with."""
        return Trimming(self.start, self.boundary, self.dropped, self.estimate, self.excess)

    def drop(self, until: TaskBoundary) -> None:
        """Leave out what stands before a boundary, and its part of the excess."""
        part = min(until.tokens - self.dropped, self.estimate)
        if part:
            self.excess -= self.excess * part // self.estimate
            self.estimate -= part
        self.start, self.dropped = until.index, until.tokens


class MessageList(Struct):
    """Messages in their order."""

    messages: list[Message] = field(default_factory=list)
    boundaries: list[TaskBoundary] = field(default_factory=list)
    tokens: int = 0
    """Of all messages, by estimate."""
    requests: list[tuple[int, int, int]] = field(default_factory=list)
    """Of each reply: the messages before it, their tokens, and the provider's count of these."""
    known: tuple[tuple[int, int], int, Trimming] | None = None
    """What was trimmed up to a request, for whom: it follows from the requests before that."""

    def begin(self, task_id: TaskId) -> None:
        """Note that what follows belongs to a task."""
        self.boundaries.append(TaskBoundary(task_id, len(self.messages), self.tokens))

    def say(self, message: Message, text: str) -> None:
        """Add a message; `text` is all that a model reads of it."""
        self.messages.append(message)
        self.tokens += estimate_tokens(text)

    def forget(self, task_id: TaskId) -> bool:
        """Drop a task's messages with all after them; false when they are not here."""
        for number, boundary in enumerate(self.boundaries):
            if boundary.task_id == task_id:
                del self.messages[boundary.index :], self.boundaries[number:]
                self.tokens, self.known = boundary.tokens, None
                while self.requests and self.requests[-1][0] > boundary.index:
                    self.requests.pop()
                return True
        return False


class Dialogue(Struct):
    """The turns of one agent in one task, and what it reads."""

    said: MessageList
    path: CallPath | None = None
    """The frame it works in; None for the agent that the task is for."""
    system: str = ""
    """What the agent in a frame is told before anything else."""
    iteration: int = 0
    reply: ReplyReceived | None = None
    """The newest whole reply, until the round it opened is settled."""
    rounds: list[Round] = field(default_factory=list)
    spent: list[Usage] = field(default_factory=list)
    """What each reply cost."""
    reminders: int = 0
    """How often the agent was told to finish."""

    def add_reply(self, reply: ReplyReceived, selected: tuple[str, ...]) -> None:
        """Take in what the model said."""
        said = self.said
        self.iteration, self.reply = reply.iteration, reply
        self.spent.append(reply.usage)
        said.requests.append((len(said.messages), said.tokens, reply.usage.input_tokens))
        if reply.calls:
            self.rounds.append(Round(reply, selected=selected))
        if reply.calls or reply.text.strip():
            asked = "".join(each.arguments_text or compact(each.arguments) for each in reply.calls)
            said.say(AssistantMessage(reply.text, reply.calls), reply.text + asked)

    def remind(self, text: str) -> None:
        """Take in that an agent which called nothing was told to go on."""
        self.reply = None
        self.reminders += 1
        self.said.say(UserMessage(text), text)

    def settle(self, call_id: CallId, settled: CallSettled) -> None:
        """Take in the outcome of a call; once all have theirs, the model may read them."""
        if not self.rounds:
            return
        now = self.rounds[-1]
        now.settled[call_id] = settled
        if now.is_settled and self.reply is not None:
            self.reply = None
            for call in now.reply.calls:
                done = now.settled[call.call_id]
                text = done.context or ""
                self.said.say(ToolMessage(call.call_id, call.name, text, done.envelope.ok), text)


def back_to(task_id: TaskId, past: list[MessageList], said: MessageList) -> MessageList:
    """Return what was said before a message that is answered anew.

    When it stands before a fresh start, the past ends there too.
    """
    for depth, each in reversed(list(enumerate([*past, said]))):
        if each.forget(task_id):
            del past[depth:]
            return each
    return said
