"""The events that a program reads of a Run: frozen values, one kind for each thing to react to.

Each has `depth` and `path`: what an agent says or calls itself has the depth 0, and what happens
inside a call or a step of a flow has the names of the calls and steps around it as its path.
`chat/python/run_events` makes them from the log.
"""

from typing import Any

from msgspec import Struct

from penstock.core.reply import Question, ReplyStatus, ToolCall


class Text(Struct, frozen=True, gc=False):
    """A piece of the answer's text.

    Example:
        >>> from penstock import Text
        >>> Text("Hello").depth
        0
    """

    text: str
    """The piece."""
    depth: int = 0
    """How many calls and steps are around it; 0 for the agent that the message was sent to."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class Thinking(Struct, frozen=True, gc=False):
    """A piece of the model's reasoning.

    Example:
        >>> from penstock import Thinking
        >>> Thinking("Let me see.").text
        'Let me see.'
    """

    text: str
    """The piece."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class OutputDelta(Struct, frozen=True, gc=False):
    """The typed output so far, as JSON. Parts may be missing, so it is not in its type yet.

    Each one replaces the one before. The last one of a task that succeeded is the whole output;
    those before it are for readers that follow the task live.

    Example:
        >>> from penstock import OutputDelta
        >>> OutputDelta({"title": "Fi"}).partial
        {'title': 'Fi'}
    """

    partial: Any
    """JSON, with open brackets and texts closed: members may be missing, the last value cut."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class ToolCalled(Struct, frozen=True, gc=False):
    """A tool was called.

    Example:
        >>> from penstock import ToolCalled
        >>> ToolCalled("tc_1", "area", {"width": 2}).name
        'area'
    """

    call_id: str
    """The `id` of the call in ToolReturned and in `Reply.calls`."""
    name: str
    """The id of the tool."""
    input: dict[str, Any]
    """The input as the model wrote it; empty for a call inside a tool."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class ToolReturned(Struct, frozen=True, gc=False):
    """A call of a tool ended. The calls inside it have events of their own.

    Example:
        >>> from penstock import ToolCall, ToolReturned
        >>> ToolReturned(ToolCall(id="tc_1", tool="area", input={})).call.tool
        'area'
    """

    call: ToolCall
    """The call with its outcome."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class Asked(Struct, frozen=True, gc=False):
    """The task asks a person.

    Example:
        >>> from penstock import Asked, Question
        >>> Asked(Question(id="q_1", kind="text", text="Where to?")).question.text
        'Where to?'
    """

    question: Question
    """Pass it to `Run.approve`, `reject` or `answer`."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class Answered(Struct, frozen=True, gc=False):
    """A question was answered, was cancelled, or expired.

    Example:
        >>> from penstock import Answered, Question
        >>> Answered(Question(id="q_1", kind="text", text="Where to?")).question.text
        'Where to?'
    """

    question: Question
    """The question that was asked."""
    status: str = "answered"
    """`answered` or `cancelled`; a question that expires is cancelled."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class HandedOff(Struct, frozen=True, gc=False):
    """Another agent continues the conversation.

    Example:
        >>> from penstock import HandedOff
        >>> HandedOff("billing").agent
        'billing'
    """

    agent: str
    """The name of the agent that answers from now on."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class StepStarted(Struct, frozen=True, gc=False):
    """A step of a flow started.

    Example:
        >>> from penstock import StepStarted
        >>> StepStarted("plan").step
        'plan'
    """

    step: str
    """The id of the step."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class StepEnded(Struct, frozen=True, gc=False):
    """A step of a flow ended.

    Example:
        >>> from penstock import StepEnded
        >>> StepEnded("plan", "done").outcome
        'done'
    """

    step: str
    """The id of the step."""
    outcome: str = ""
    """How it ended, such as `done`."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class Notice(Struct, frozen=True, gc=False):
    """Something that a reader may want to know, and that changes nothing.

    Example:
        >>> from penstock import Notice
        >>> Notice("progress", "half done").level
        'info'
    """

    code: str
    """`REPLY_RESTARTED` (discard the reply's text so far), `BLOCKED`, or the type of an event that
    a tool emitted."""
    message: str
    """Its text for people."""
    level: str = "info"
    """`info`, `warning` or `error`."""
    payload: Any = None
    """JSON that a tool emitted with it."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


class Ended(Struct, frozen=True, gc=False):
    """Nothing more happens by itself: the task has ended, or waits for people.

    Example:
        >>> from penstock import Ended
        >>> Ended("succeeded").status
        'succeeded'
    """

    status: ReplyStatus
    """`succeeded`, `failed`, `cancelled` or `suspended`."""
    depth: int = 0
    """How many calls and steps are around it."""
    path: tuple[str, ...] = ()
    """The tools and steps around it, outermost first."""


Event = (
    Text
    | Thinking
    | OutputDelta
    | ToolCalled
    | ToolReturned
    | Asked
    | Answered
    | HandedOff
    | StepStarted
    | StepEnded
    | Notice
    | Ended
)
"""An event of a Run. New kinds are added in minor versions: end a `match` with `case _: pass`."""
