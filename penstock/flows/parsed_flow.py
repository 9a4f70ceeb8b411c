"""A parsed flow and its parsed steps: values with their places in the file."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic, Severity, in_file_order
from penstock.flows.definition import Flow, Step
from penstock.manifest.document import LINE_END, Document, SourceRange
from penstock.manifest.fields import Node, quoted


class StepNode(Node, kw_only=True):
    """A value inside a step. Messages name it by the step's id."""

    step_id: str = ""

    @property
    def name(self) -> str:
        """Return the path as authors read it: `steps.look.outputs[0].type`."""
        first = f".{self.step_id}" if self.step_id else f"[{self.path[1]}]"
        rest = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in self.path[2:])
        return f"steps{first}{''.join(rest)}"

    def at(self, *keys: str | int) -> "StepNode":
        """Return a value inside this one, or None as its value."""
        return step_node(Node.at(self, *keys), self.step_id)


class ParsedStep(Struct, frozen=True, kw_only=True):
    """A parsed step, and the places of its parts."""

    step: Step
    """A step without a valid id has `#` and its number as its id."""
    node: StepNode
    is_whole: bool = True
    """Its kind is known, and its id is unique."""

    @property
    def step_id(self) -> str:
        """The id, unique among all parsed steps."""
        return self.step.step_id

    @property
    def is_named(self) -> bool:
        """Whether other steps can refer to it."""
        return not self.step_id.startswith("#")

    @property
    def label(self) -> str:
        """Name of the step in messages."""
        return label(self.node)

    @property
    def place(self) -> SourceRange:
        """Place of its id."""
        return place_of(self.node)

    def error(
        self, code: str, message: str, at: SourceRange | None = None, suggestion: str | None = None
    ) -> Diagnostic:
        """Return an error at a place, by default at the id."""
        warning = self.warning(code, message, at, suggestion)
        return replace(warning, severity=Severity.ERROR)

    def warning(
        self, code: str, message: str, at: SourceRange | None = None, suggestion: str | None = None
    ) -> Diagnostic:
        """Return a warning at a place, by default at the id."""
        place = at or self.place
        return Diagnostic(
            code=code,
            message=message,
            file=self.node.document.file,
            line=place.line,
            column=place.column,
            severity=Severity.WARNING,
            suggestion=suggestion,
            end_line=place.line,
            end_column=place.end_column,
        )


@dataclass(frozen=True, kw_only=True)
class ParsedFlow:
    """A parsed flow, with the problems of its text."""

    document: Document
    source: str | bytes = field(repr=False)
    steps: Sequence[ParsedStep] = ()
    """The steps that are mappings, including broken ones."""
    flow: Flow | None = None
    """None if there is an error."""
    inputs: Sequence[str] = ()
    """Names of the typed inputs."""

    @property
    def file(self) -> str:
        """Name of the file in findings."""
        return self.document.file

    @property
    def findings(self) -> list[Diagnostic]:
        """Problems of the text alone."""
        return in_file_order(self.document.problems)

    @property
    def text(self) -> str:
        """The text. Bytes that are not UTF-8 are replaced."""
        source = self.source
        return source if isinstance(source, str) else source.decode(errors="replace")

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines of the text."""
        return source_lines(self.source)


def step_node(node: Node, step_id: str) -> StepNode:
    """Return the node as a StepNode."""
    return StepNode(
        document=node.document,
        home=node.home,
        what=node.what,
        value=node.value,
        path=node.path,
        step_id=step_id,
    )


def label(node: Node) -> str:
    """Return the name of a step in messages."""
    step_id = node.value.get("id")
    if isinstance(step_id, str) and step_id:
        return f"step {quoted(step_id)}"
    return f"step {int(node.path[1]) + 1}"


def place_of(node: Node) -> SourceRange:
    """Return the place of a step's id, or of the step if it has none."""
    return node.at("id").key_place if "id" in node.value else node.place


def source_lines(text: str | bytes) -> list[str]:
    """Return the lines of a text as YAML counts them."""
    decoded = text.decode(errors="replace") if isinstance(text, bytes) else text
    return LINE_END.split(decoded.removeprefix("\ufeff"))
