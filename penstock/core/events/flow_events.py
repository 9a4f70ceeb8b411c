"""The events of flows, and the results of steps that logs keep and templates read."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from penstock.core.envelope import Json
from penstock.core.ids import LogId, ProfileId, TaskId
from penstock.core.messages import NOTHING_SPENT, Usage


class Outcome(StrEnum):
    """How a visit of a step ended."""

    SUCCESS = "success"
    SOFT = "soft"
    """A failure that `on_error` may catch."""
    HARD = "hard"
    """A failure that ends the flow."""
    ABORTED = "aborted"
    """Somebody ends the whole run here."""


class StepStatus(StrEnum):
    """Where a step stands when it is over. The values are the wire format."""

    COMPLETE = "complete"
    ERROR = "error"
    BLOCKED = "blocked"
    SKIPPED = "skipped"
    ABORTED = "aborted"


class ValueType(StrEnum):
    """What an output or an input of a run may be."""

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    OBJECT = "object"
    ARRAY = "array"


class Output(Struct, frozen=True, kw_only=True):
    """A value that a step promises."""

    name: str
    description: str = ""
    value_type: ValueType | None = None
    """None: a text that may be missing."""
    pattern: str | None = None
    """A regular expression that the text must contain; beats the type."""
    is_required: bool = False


STANDARD_FIELDS = ("status", "summary", "artifacts", "files", "fullOutput", "output", "branch")
"""What every result has, whatever the step declares."""
RESERVED = (*STANDARD_FIELDS, "error", "finish", "outputs", "visits")
"""Names that no output may have."""


class FileUse(Struct, frozen=True):
    """A file that an agent says it worked with."""

    path: str
    action: str
    """`created`, `modified` or `read`."""


class StepResult(Struct, frozen=True, kw_only=True):
    """What a step leaves to the steps after it."""

    status: StepStatus = StepStatus.COMPLETE
    summary: str = ""
    artifacts: str = ""
    files: tuple[FileUse, ...] = ()
    full_output: str = ""
    branch: str | tuple[str, ...] | None = None
    """What a decision chose."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Declared values, with their types."""
    finish: Mapping[str, Any] | None = None
    """What the agent gave to `finish`, as it gave it."""

    def has(self, name: str) -> bool:
        """Whether a template may read this field."""
        return name in STANDARD_FIELDS or name in self.outputs

    def read(self, name: str) -> Any:
        """Return a standard field or an output, as templates and later steps see it."""
        if name in self.outputs:
            return self.outputs[name]
        branch = self.branch or ""
        return {
            "status": self.status.value,
            "summary": self.summary,
            "artifacts": self.artifacts,
            "files": ", ".join(f"{each.path} ({each.action})" for each in self.files),
            "fullOutput": self.full_output,
            "output": self.full_output,
            "branch": branch if isinstance(branch, str) else ", ".join(branch),
        }[name]

    def to_wire(self) -> dict[str, Any]:
        """Return the result as programs read it: outputs flat, and typed beside."""
        wire = {
            "status": self.status.value,
            "summary": self.summary,
            "artifacts": self.artifacts,
            "files": self.read("files"),
            "fullOutput": self.full_output,
            **self.outputs,
            "outputs": dict(self.outputs),
        }
        if self.branch is not None:
            wire["branch"] = self.branch if isinstance(self.branch, str) else list(self.branch)
        if self.finish is not None:
            wire["finish"] = dict(self.finish)
        return wire


SKIPPED = StepResult(status=StepStatus.SKIPPED)
ABORTED = StepResult(status=StepStatus.ABORTED, summary="aborted")


def is_present(value: Any) -> bool:
    """Whether a conditional finds a value there: text that is not blank, a list that is not empty.

    Any number and any boolean is there, zero and false among them.
    """
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, list | tuple | dict):
        return bool(value)
    return value is not None


class FlowRequested(Struct, frozen=True, kw_only=True):
    """A door asked for a run of a flow, which is a task of its own. An outside event."""

    command: str
    """The flow's, without the slash."""
    profile_id: ProfileId
    permissions: tuple[str, ...] | None = None
    """None for a profile that holds everything."""
    task: str | None = None
    inputs: Json = field(default_factory=dict)
    autonomous: bool | None = None
    """Whether nobody is asked; None is the project's default."""
    max_concurrent: int | None = None
    depth: int = 0
    """How many calls of tools started it, each in a run that the one before started."""
    idempotency_key: str | None = None
    """As that of a message."""
    request_hash: str | None = None
    waiter_log: LogId | None = None
    """Where a call waits for the end of the run, if one does."""
    waiter: TaskId | None = None
    """The task of that call."""


class RunEnded(Struct, frozen=True, kw_only=True):
    """A run that a call of this task began is over. An outside event."""

    run_id: TaskId


class FlowStarted(Struct, frozen=True, kw_only=True):
    """The run begins. It keeps these texts to its end, whatever is written meanwhile."""

    file: str
    """Of the flow, relative to the root; the first of the texts."""
    texts: Mapping[str, str]
    """Of the flow, of the flows that it refers to by literal paths, and of handlers; by file."""
    task: str
    inputs: Json = field(default_factory=dict)
    """With defaults, checked."""
    autonomous: bool = False
    max_concurrent: int | None = None
    """Instead of the flow's own."""
    config: Json = field(default_factory=dict)
    """Of the project, as it was then."""
    root: str = ""
    """Where what it refers to lies: empty for the project, else the folder of a package."""


class StepStarted(Struct, frozen=True, kw_only=True):
    """A visit of a step begins. Its path is the frame of the visit."""

    step_id: str
    visit: int
    agent: str = ""
    active_ms: int = 0
    """How long the run had been at work by then."""
    rested_ms: int = 0
    """How much of that it only waited for its next tries."""


class StepSettled(Struct, frozen=True, kw_only=True):
    """A visit of a step is over. What follows from it stands in the same append."""

    step_id: str
    visit: int
    outcome: Outcome
    result: StepResult
    source: str = ""
    """Why it failed, as a word; empty after success."""
    text: str = ""
    """Why it failed, as a sentence."""
    targets: tuple[str, ...] = ()
    """Where a router leads."""
    answer: str | None = None
    """What was chosen at a fork."""
    notes: str = ""
    decided_by: str = ""
    """The agent that decided a fork; empty when a person did."""
    question: str = ""
    """Of a fork, as it was asked."""
    will_retry: bool = False
    """A further visit follows; the step is not over."""
    duration_ms: int = 0
    """Without the time it waited for people."""
    usage: Usage = NOTHING_SPENT


class FlowNotified(Struct, frozen=True, kw_only=True):
    """Something that readers of a run are shown; no state depends on it."""

    kind: str
    """`flow_jump`, `flow_step_skipped`, `flow_warning`: the names of the wire."""
    body: Mapping[str, Any] = field(default_factory=dict)


class AgentStarted(Struct, frozen=True, kw_only=True):
    """An agent of its own takes up a task, in a frame of the log. Its path is the frame."""

    agent: str
    message: str
    """What it is told to do."""
    system: str
    model: str | None = None
    offered: tuple[str, ...] = ()
    agent_hash: str = ""
    """SHA-256 of the agent's file as it was then."""
    charter: Json = field(default_factory=dict)
    """What the file promised and asked for then; empty in a log of before it was kept."""


class AgentReminded(Struct, frozen=True, kw_only=True):
    """An agent that said something, and called nothing, is told to finish."""

    message: str


FlowEvent = FlowStarted | StepStarted | StepSettled | FlowNotified
"""What a run is folded from."""
