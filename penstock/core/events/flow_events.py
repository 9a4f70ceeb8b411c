"""The events of flows and hand-offs, and the results of steps that logs keep and templates read."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from penstock.core.envelope import Json
from penstock.core.ids import LogId, ProfileId, TaskId
from penstock.core.messages import NOTHING_SPENT, Usage
from penstock.core.task import TaskStatus


class Outcome(StrEnum):
    """How a visit of a step ended."""

    SUCCESS = "success"
    SOFT = "soft"
    """A failure that `on_error` may catch."""
    HARD = "hard"
    """A failure that ends the flow."""
    ABORTED = "aborted"
    """A person ended the whole run at this step."""


class StepStatus(StrEnum):
    """The final state of a step. The values are the wire format."""

    COMPLETE = "complete"
    ERROR = "error"
    BLOCKED = "blocked"
    SKIPPED = "skipped"
    ABORTED = "aborted"


class ValueType(StrEnum):
    """The type of an output of a step, or of an input of a run."""

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    OBJECT = "object"
    ARRAY = "array"


class Output(Struct, frozen=True, kw_only=True):
    """A value that a step declares as its output."""

    name: str
    description: str = ""
    value_type: ValueType | None = None
    """None means text, which may be missing."""
    pattern: str | None = None
    """A regular expression that the text must contain; takes precedence over the type."""
    is_required: bool = False


STANDARD_FIELDS = ("status", "summary", "artifacts", "files", "fullOutput", "output", "branch")
"""The fields of every result, in addition to the declared outputs."""
RESERVED = (*STANDARD_FIELDS, "error", "finish", "outputs", "visits")
"""Names that an output must not have."""


class FileUse(Struct, frozen=True):
    """A file that an agent reported."""

    path: str
    action: str
    """`created`, `modified` or `read`."""


class StepResult(Struct, frozen=True, kw_only=True):
    """The result of a step, as later steps read it."""

    status: StepStatus = StepStatus.COMPLETE
    summary: str = ""
    artifacts: str = ""
    files: tuple[FileUse, ...] = ()
    full_output: str = ""
    branch: str | tuple[str, ...] | None = None
    """The branch or branches that a decision chose."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """The declared outputs, with values of their types."""
    finish: Mapping[str, Any] | None = None
    """The arguments of the agent's call of `finish`, unchanged."""

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
        """Return the result for programs: outputs as top-level members, and again in `outputs`."""
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
    """Whether a conditional treats a value as present: not None, not blank, not empty.

    Every number and every boolean is present, including zero and false.
    """
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, list | tuple | dict):
        return bool(value)
    return value is not None


class FlowRequested(Struct, frozen=True, kw_only=True):
    """A client or a call requested a run of a flow, which is a task. An outside event."""

    command: str
    """The command of the flow, without the slash."""
    profile_id: ProfileId
    permissions: tuple[str, ...] | None = None
    """The permissions of the profile; None means all."""
    task: str | None = None
    inputs: Json = field(default_factory=dict)
    autonomous: bool | None = None
    """Whether the run decides without people; None means the project's default."""
    max_concurrent: int | None = None
    depth: int = 0
    """The number of tool calls that led to it, each in a run that the previous one started."""
    idempotency_key: str | None = None
    """As in MessageReceived."""
    request_hash: str | None = None
    waiter_log: LogId | None = None
    """The log of the call that waits for the run, if one does."""
    waiter: TaskId | None = None
    """The task of that call."""


class RunEnded(Struct, frozen=True, kw_only=True):
    """A run or a task that this task may wait for has ended. An outside event."""

    run_id: TaskId
    status: TaskStatus | None = None
    """How it ended; None in logs of versions that did not store it."""


class FlowStarted(Struct, frozen=True, kw_only=True):
    """A run or a nested flow started. It uses these texts to its end, even if files change."""

    file: str
    """The file of the flow, relative to the root; the first key of `texts`."""
    texts: Mapping[str, str]
    """Sources by file: of the flow, of flows that it names by literal paths, and of handlers."""
    task: str
    inputs: Json = field(default_factory=dict)
    """Validated, with defaults."""
    autonomous: bool = False
    max_concurrent: int | None = None
    """Overrides the value of the flow."""
    config: Json = field(default_factory=dict)
    """The configuration of the project at that time."""
    root: str = ""
    """The folder of the package that paths are relative to; empty for the project."""


class StepStarted(Struct, frozen=True, kw_only=True):
    """A visit of a step started. Its path is the frame of the visit."""

    step_id: str
    visit: int
    agent: str = ""
    active_ms: int = 0
    """How long the run had worked at that time, in milliseconds."""
    rested_ms: int = 0
    """How much of that time it only waited before further attempts."""


class StepSettled(Struct, frozen=True, kw_only=True):
    """A visit of a step ended. The events that follow from it are in the same append."""

    step_id: str
    visit: int
    outcome: Outcome
    result: StepResult
    source: str = ""
    """The kind of the failure, as a word; empty after success."""
    text: str = ""
    """The reason of the failure, as a sentence."""
    targets: tuple[str, ...] = ()
    """The steps that follow after a router."""
    answer: str | None = None
    """The option that was chosen at a fork."""
    notes: str = ""
    decided_by: str = ""
    """The agent that decided a fork; empty if a person decided."""
    question: str = ""
    """The question of a fork."""
    will_retry: bool = False
    """Another visit follows; the step has not ended."""
    duration_ms: int = 0
    """Without waiting for people."""
    usage: Usage = NOTHING_SPENT


class FlowNotified(Struct, frozen=True, kw_only=True):
    """Information for readers of a run; no state depends on it."""

    kind: str
    """The name on the wire, such as `flow_jump`, `flow_step_skipped` or `flow_warning`."""
    body: Mapping[str, Any] = field(default_factory=dict)


class AgentStarted(Struct, frozen=True, kw_only=True):
    """A nested agent started in a frame of the log. Its path is the frame."""

    agent: str
    message: str
    """Its task."""
    system: str
    model: str | None = None
    offered: tuple[str, ...] = ()
    agent_hash: str = ""
    """SHA-256 of the agent's file at that time."""
    charter: Json = field(default_factory=dict)
    """The agent's profile at that time; empty in logs of versions that did not store it."""


class AgentReminded(Struct, frozen=True, kw_only=True):
    """An agent that replied without a call was reminded to finish."""

    message: str
    is_note: bool = False
    """The message says that only an answer is left. It does not count as a reminder."""


class HandedOff(Struct, frozen=True, kw_only=True, gc=False):
    """An agent handed the conversation to another, which works from the next turn on."""

    agent: str
    """The agent that took over."""
    previous: str
    model: str | None = None
    """As in TaskStarted, and so are the next three: they apply to the rest of the task."""
    offered: tuple[str, ...] = ()
    agent_schema: Json | None = None
    agent_digest: str = ""


class HandedBack(Struct, frozen=True, kw_only=True, gc=False):
    """A person or a program undid the newest hand-off. An outside event."""

    agent: str
    """The agent that has the conversation again."""
    by: ProfileId | None = None


FlowEvent = FlowStarted | StepStarted | StepSettled | FlowNotified
"""The events that the state of a run is folded from."""
