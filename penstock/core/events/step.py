"""What a step of a flow came to: the words that the log keeps, and templates read."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field


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
