"""Values of child tasks: the request of a call, and the outcome of a task that ended.

`checked` bounds what a call says, `digest_of` tells whether two calls say the same, `outcome_of`
reads the output of a task that ended. Shown by tests/tools/tasks/test_child_forms.py.
"""

from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from penstock.core.clock import to_iso
from penstock.core.envelope import Json
from penstock.core.events.child_events import ChildRequested, Dependency
from penstock.core.ids import TaskId
from penstock.core.json_values.json_text import canonical, is_larger, parse_json, without_surrogates
from penstock.core.json_values.schema import Schema
from penstock.core.limits import KIB, MIB
from penstock.core.task import TaskRecord, TaskStatus

TITLE_CHARACTERS, OBJECTIVE_BYTES, INPUT_BYTES = 200, 16 * KIB, MIB
KEY_CHARACTERS, DEPENDENCIES, TURNS = 128, 64, 50
MAX_CHILDREN = 32
"""Most children of one batch."""
WORKERS = ("extractor", "matcher", "classifier", "summarizer", "aggregator", "verifier")
"""The kinds of workers; each adds a sentence to the prompt of its child."""


class NewChild(Struct, frozen=True, kw_only=True):
    """A child as its call describes it."""

    objective: str
    title: str = ""
    input: Any = None
    key: str = ""
    worker_kind: str = ""
    output_schema: Json | None = None
    selected_skills: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    max_turns: int | None = None
    dependencies: tuple[Dependency, ...] = ()
    any: bool = False
    needs_success: bool = True


class Outcome(Struct, frozen=True, kw_only=True):
    """How a task ended, or its status if it has not."""

    task_id: TaskId
    status: TaskStatus
    output: Any = None
    error: Json | None = None
    ended_at: str | None = None
    worker_kind: str = ""

    @property
    def message(self) -> str:
        """Why it has no output."""
        return str((self.error or {}).get("message", f"it is {self.status.value}"))

    def to_wire(self) -> Json:
        """Return its stored form."""
        named = {"task_id": self.task_id, "status": self.status.value, "output": self.output}
        return {**named, "error": self.error, "ended_at": self.ended_at, "kind": self.worker_kind}

    @classmethod
    def from_wire(cls, wire: Json) -> "Outcome":
        """Return the outcome of a stored form."""
        return cls(
            task_id=wire["task_id"],
            status=TaskStatus(wire["status"]),
            output=wire["output"],
            error=wire["error"],
            ended_at=wire["ended_at"],
            worker_kind=wire["kind"],
        )


def outcome_of(record: TaskRecord) -> Outcome:
    """Return how a task ended: its typed output, else JSON or text of its answer."""
    ended, output = record.outcome or {}, None
    if record.status is TaskStatus.SUCCEEDED:
        if "output" in ended:
            output = ended["output"]["value"]
        elif "envelope" in ended:
            output = ended["envelope"].get("output")
        else:
            output = output_of_text(ended.get("content", ""))
    return Outcome(
        task_id=record.task_id,
        status=record.status,
        output=output,
        error=ended.get("error"),
        ended_at=None if record.ended_at is None else to_iso(record.ended_at),
        worker_kind=record.worker_kind,
    )


def output_of_text(content: str) -> Any:
    """Return the value of an answer that is a JSON object or array, any other as text."""
    text = content.strip()
    if text[:1] in {"{", "["}:
        with suppress(ValueError, RecursionError):
            return parse_json(text)
    return content


def checked(new: NewChild) -> NewChild:
    """Raise TypeError for a value out of bounds."""
    _check_length("title", new.title, TITLE_CHARACTERS)
    _check_length("key", new.key, KEY_CHARACTERS)
    if without_surrogates(new.key) != new.key:
        raise TypeError(f"key must be a text without lone surrogates, found {new.key!r}")
    if not new.objective.strip() or len(_utf8(new.objective)) > OBJECTIVE_BYTES:
        raise TypeError(f"objective must be a text of 1 to {OBJECTIVE_BYTES} bytes")
    if is_larger(new.input, INPUT_BYTES):
        raise TypeError(f"input must have at most {INPUT_BYTES} bytes as JSON")
    check_dependencies(new.dependencies)
    if new.max_turns is not None and not 1 <= new.max_turns <= TURNS:
        raise TypeError(f"max_turns must be a number from 1 to {TURNS}")
    if new.worker_kind and new.worker_kind not in WORKERS:
        raise TypeError(f"worker_kind must be one of {', '.join(WORKERS)}")
    if new.output_schema is not None:
        try:
            Schema(new.output_schema, is_trusted=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"output_schema is not a JSON Schema (2020-12): {error}") from None
    return new


def check_dependencies(dependencies: Sequence[Dependency]) -> None:
    """Raise TypeError for more tasks than one wait may name, or for an alias of two of them."""
    if len(dependencies) > DEPENDENCIES:
        raise TypeError(f"dependencies: at most {DEPENDENCIES}, found {len(dependencies)}")
    if len({each.alias for each in dependencies}) < len(dependencies):
        raise TypeError("dependencies: each must have an alias of its own")


def _check_length(name: str, text: str, most: int) -> None:
    if len(text) > most:
        raise TypeError(f"{name} must have at most {most} characters, has {len(text)}")


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")  # models and programs write lone surrogates


def digest_of(child: ChildRequested) -> str:
    """Return the hash of what a call says about a child."""
    said = {name: getattr(child, name) for name in NewChild.__struct_fields__}
    said["dependencies"] = [[each.task_id, each.alias] for each in child.dependencies]
    return blake2b(canonical(said).encode(), digest_size=16).hexdigest()
