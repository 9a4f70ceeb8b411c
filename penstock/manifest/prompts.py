"""`*.prompts.yaml`: the text at the start of every system prompt of a project."""

from typing import Any

from msgspec import Struct

from penstock.manifest.document import SourceRange
from penstock.manifest.execution import Entrypoint
from penstock.manifest.fields import Field, Invalid, Node, read_fields
from penstock.manifest.kinds import Integer, RecordKind, from_fields
from penstock.manifest.paths import FilePathKind

MAX_BYTES = 65_536


class PromptResolver(Struct, frozen=True, kw_only=True):
    """A script that adds to the prompt, run once per task."""

    script_file: str
    entrypoint: str
    timeout_ms: int
    script_at: SourceRange
    """Position of the path."""


class Prompts(Struct, frozen=True, kw_only=True):
    """The text before an agent's instructions in the system prompt."""

    preamble: str
    resolver: PromptResolver | None = None
    file: str
    folder: str
    """The folder of the script, relative to the project; `.` is the project."""


def read_prompts(node: Node) -> Prompts:
    """Return the prompts in a mapping; report its errors."""
    values = read_fields(node, FIELDS)
    return Prompts(
        preamble=values["execution"] or "",
        resolver=values["system_prompt_resolver"],
        file=node.document.file,
        folder=node.home.shown,
    )


class _Preamble(Struct, frozen=True, kw_only=True):
    """A text that is not blank."""

    expected: str = "a string of 1 to 65536 bytes that is not blank"

    def read(self, node: Node) -> str | Invalid:
        """Return the text."""
        if not isinstance(node.value, str):
            return node.wrong_type(self.expected)
        if not node.value.strip() or len(node.value.encode()) > MAX_BYTES:
            return node.bad_value(self.expected)
        return node.value


def _preamble(preamble: str | None) -> str | None:
    return preamble


def _resolver(node: Node, values: dict[str, Any]) -> PromptResolver:
    return PromptResolver(**values, script_at=node.at("script_file").place)


EXECUTION_FIELDS = (
    Field(
        key="preamble",
        kind=_Preamble(),
        required=True,
        meaning="The start of the system prompt, before the agent's instructions.",
    ),
)
RESOLVER_FIELDS = (
    Field(
        key="script_file",
        kind=FilePathKind(
            expected="a relative path to a .mts or .mjs file", endings=(".mts", ".mjs")
        ),
        required=True,
        meaning="The script: a file below the manifest's folder.",
    ),
    Field(
        key="entrypoint",
        kind=Entrypoint(),
        required=True,
        meaning="The exported function to call.",
    ),
    Field(
        key="timeout_ms",
        kind=Integer(low=1, high=60_000),
        required=True,
        meaning="Timeout of the function.",
    ),
)
FIELDS = (
    Field(
        key="execution",
        kind=RecordKind(fields=EXECUTION_FIELDS, build=from_fields(_preamble)),
        required=True,
        meaning="The start of the prompt.",
    ),
    Field(
        key="system_prompt_resolver",
        kind=RecordKind(fields=RESOLVER_FIELDS, build=_resolver),
        meaning="A script that returns a further part of the prompt. It runs once per task.",
    ),
)
