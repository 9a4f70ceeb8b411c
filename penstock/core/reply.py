"""Reply: the state of a task when nothing more happens in it by itself, and its errors.

A Reply survives its runtime: it can be kept, compared and pickled. Its calls, messages and output
follow from the events of the task, which it reads through TaskHistory when it is first asked; a
program that only prints `content` does not pay for them.

TaskError                 a task has no output; has its Reply
├── TaskFailed            it failed
├── TaskCancelled         it was cancelled
├── TaskSuspended         it waits for people
└── OutputChanged         its output does not fit the type any more
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, Self

from msgspec import Struct
from typing_extensions import TypeVar

from penstock.core.envelope import Envelope, ErrorDetail, Json
from penstock.core.errors import PenstockError
from penstock.core.ids import BlobId
from penstock.core.messages import NOTHING_SPENT, Usage

OutputT_co = TypeVar("OutputT_co", covariant=True, default=str)
"""The type of what a task returns; text by default."""
ReplyStatus = Literal["succeeded", "failed", "cancelled", "suspended"]
"""The state of a task; `suspended` if it waits for people, or for a part this process lacks."""
QuestionType = Literal["approval", "choice", "text", "form"]
CallStatus = Literal["success", "failed", "timeout", "validation_error", "suspended"]


class Question(Struct, frozen=True, kw_only=True):
    """A decision that a task needs from a person: a value that any process can answer.

    Pass it to `Runtime.approve`, `reject` or `answer`, or to the same methods of a Run.

    Example:
        >>> from penstock import Question
        >>> Question(id="q_1", kind="choice", text="Where to?", options=("Tokyo", "Home")).options
        ('Tokyo', 'Home')
    """

    id: str
    """`q_…`; it can be answered by this id, too."""
    kind: QuestionType
    """`approval` takes a decision, `choice` one of the options, `text` any text, `form` a value
    that fits `schema`."""
    text: str
    """The question in words."""
    tool: str | None = None
    """The tool that asks."""
    input: dict[str, Any] | None = None
    """The input that an approved call would run with; secrets are redacted."""
    options: tuple[str, ...] = ()
    """The values that a choice offers."""
    context: str | None = None
    """Background for the person."""
    schema: dict[str, Any] | None = None
    """The JSON Schema of the answer to a form."""
    task_id: str = ""
    """The task that waits; a run of a flow if the task of the reply waits for that."""


class StoredOutput(Struct, frozen=True):
    """The place of an output that is too long to be in a reply."""

    blob_id: BlobId
    is_text: bool
    """The output is a text; else the bytes are its JSON."""
    characters: int


class ToolCall(Struct, frozen=True, kw_only=True):
    """One call of a tool with its outcome and the calls that the tool made.

    Example:
        >>> from penstock import Envelope, ToolCall
        >>> done = ToolCall(id="tc_1", tool="area", input={"a": 2}, envelope=Envelope.success(4))
        >>> done.status, done.output
        ('success', 4)
    """

    id: str
    """`tc_…` for a call of a model, else its path in the tree of calls."""
    tool: str
    """The id of the tool."""
    input: dict[str, Any]
    """The input as the model wrote it. Empty for calls inside a tool, whose inputs are not kept."""
    envelope: Envelope | None = None
    """The outcome; None while the call runs or waits."""
    seconds: float = 0.0
    """How long the tool ran, without time spent waiting for people."""
    calls: tuple["ToolCall", ...] = ()
    """The calls that the tool made, in the order in which they ended."""
    stored: StoredOutput | None = None
    """Set if the output was too long for the model or for the log: `output` is None, and
    `await runtime.read_output(call)` returns it."""

    @property
    def status(self) -> CallStatus:
        """How the call ended; `suspended` while it has not."""
        return "suspended" if self.envelope is None else self.envelope.status.value

    @property
    def output(self) -> Any:
        """The JSON that the tool returned; None if it failed, or if the output is `stored`."""
        return None if self.envelope is None else self.envelope.output

    @property
    def error(self) -> str | None:
        """Why the call failed; None if it did not."""
        error = None if self.envelope is None else self.envelope.error
        return None if error is None else error.message


class UserMessage(Struct, frozen=True, kw_only=True):
    """A message of a person in a conversation.

    Example:
        >>> from penstock import UserMessage
        >>> UserMessage(text="Hello").text
        'Hello'
    """

    text: str
    """Its text."""
    id: str = ""
    """`msg_…`; empty for a message that is not stored yet."""


class AssistantMessage(Struct, frozen=True, kw_only=True):
    """An answer of an agent in a conversation, with the calls it made on the way.

    Example:
        >>> from penstock import AssistantMessage
        >>> AssistantMessage(text="Good morning.").calls
        ()
    """

    text: str
    """Its text; the output as JSON if the agent has an output type."""
    calls: tuple[ToolCall, ...] = ()
    """The calls of the model in this task."""
    id: str = ""
    """`msg_…`; empty for a message that is not stored yet."""


Message = UserMessage | AssistantMessage
"""A message of a conversation, as `Runtime.history` returns it."""


class TaskHistory(Protocol):
    """Reads a task for its Reply.

    Contract: pure functions of the task's events, so a Reply is a value.
    """

    @property
    def records(self) -> Sequence[Any]:
        """The events of the task, each a Record; events import this file."""
        ...

    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of the model, with those inside them."""
        ...

    def messages(self) -> tuple[Message, ...]:
        """Return the messages of the task."""
        ...

    def output(self, reply: "Reply[Any]") -> Any:
        """Return the output in its type. Raises TaskError if the task has none."""
        ...

    def check(self, reply: "Reply[Any]") -> None:
        """Raise TaskError unless the task succeeded."""
        ...


class Reply(Struct, Generic[OutputT_co], frozen=True, kw_only=True, dict=True):
    """The state of a task when nothing more happens in it by itself.

    `Runtime.chat`, `wait`, `approve`, `reject`, `answer` and `Run.reply` return it. A task that
    failed or waits is a Reply, too: look at `status`, or read `output`, which raises then.

    Example:
        >>> import asyncio
        >>> from penstock.testing import ScriptedModel, memory_runtime, say
        >>> async def main() -> None:
        ...     async with memory_runtime(model=ScriptedModel([say("Good morning.")])) as runtime:
        ...         reply = await runtime.chat("Hello")
        ...         print(reply.status, reply.output)
        >>> asyncio.run(main())
        succeeded Good morning.
    """

    status: ReplyStatus
    """`succeeded`, `failed`, `cancelled` or `suspended`."""
    content: str = ""
    """The answer for people: the text, or the output as JSON. Empty without an answer."""
    finish_reason: str | None = None
    """Why the last reply of the model ended, such as `stop`."""
    usage: Usage = NOTHING_SPENT
    """Tokens, calls and cost of the task."""
    questions: tuple[Question, ...] = ()
    """The open questions of a suspended task, including those of the runs that it waits for."""
    error: ErrorDetail | None = None
    """Why the task failed, or what a suspended task without questions waits for."""
    agent: str
    """The name of the agent."""
    session: str
    """The conversation; pass it to `Runtime.chat` to continue."""
    task_id: str
    """The task; pass it to `Runtime.attach`."""
    message_id: str = ""
    """The id of the answer in the conversation's history; empty without an answer."""
    recorded: TaskHistory
    """Reads the rest from the events of the task."""

    @property
    def output(self) -> OutputT_co:
        """The output, in the agent's output type.

        Raises:
            TaskSuspended: The task waits; `questions` of the error says for what.
            TaskFailed: The task failed; the message says why.
            TaskCancelled: The task was cancelled.
            OutputChanged: The recorded output does not fit the type, which changed since.
        """
        value: OutputT_co = self.recorded.output(self)
        return value

    @cached_property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of the model in this task, in its order; each with the calls inside it."""
        return self.recorded.calls()

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The message of this task and its answer, if there is one."""
        return self.recorded.messages()

    def raise_for_status(self) -> Self:
        """Raise the error that `output` would raise, or return the reply itself.

        Returns:
            The reply.

        Raises:
            TaskError: The task did not succeed; see `output`.
        """
        self.recorded.check(self)
        return self

    def _repr_markdown_(self) -> str:
        """Return the reply for a notebook."""
        lines = [self.content] if self.content else []
        if self.error is not None:
            lines.append(f"**{self.status}**: {self.error.message}")
        for question in self.questions:
            choices = f" ({', '.join(question.options)})" if question.options else ""
            lines.append(f"**waiting for an answer**: {question.text}{choices} `{question.id}`")
        return "\n\n".join(lines) or f"**{self.status}**"


class TaskError(PenstockError):
    """A task has no output. `reply` shows its state."""

    def __init__(self, reply: Reply[Any]) -> None:
        """Create the error of a reply. `Reply.output` and `Reply.raise_for_status` raise it.

        Args:
            reply: The reply of the task.

        Example:
            >>> from penstock import TaskError
            >>> from penstock.testing import ScriptedModel, fail, memory_runtime_sync
            >>> with memory_runtime_sync(model=ScriptedModel([fail(400)])) as runtime:
            ...     print(TaskError(runtime.chat("Hello")).reply.status)
            failed
        """
        said = (self.__doc__ or "").partition("\n")[0].rstrip(".")
        why = "" if reply.error is None else f": {reply.error.message} ({reply.error.code})"
        super().__init__(f"{said}: {reply.task_id} of agent {reply.agent!r}{why}")
        self.reply = reply


class TaskFailed(TaskError):
    """The task failed."""


class TaskCancelled(TaskError):
    """The task was cancelled."""


class TaskSuspended(TaskError):
    """The task waits, so it has no output yet. Answer its questions, then wait for it."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """The open questions; none if it waits for a part that this process lacks."""
        return self.reply.questions


class OutputChanged(TaskError):
    """The recorded output does not fit the output type, which changed since."""

    def __init__(self, reply: Reply[Any], recorded: Json | None, current: Json) -> None:
        """Create the error of an output that the program cannot read.

        Args:
            reply: The reply of the task.
            recorded: The JSON Schema that the task had; None if its output was text.
            current: The JSON Schema of the type that the program gives now.

        Example:
            >>> from penstock import OutputChanged, open_sync
            >>> with open_sync(":memory:") as runtime:
            ...     OutputChanged(runtime.chat("Hello"), None, {"type": "integer"}).current_schema
            {'type': 'integer'}
        """
        super().__init__(reply)
        self.recorded_schema = recorded
        self.current_schema = current
