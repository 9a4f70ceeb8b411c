"""`execution` of a tool: the script that runs, in the manifest or in a separate file."""

from typing import Any

from msgspec import Struct

from penstock.manifest.document import SourceRange
from penstock.manifest.fields import Field, Invalid, Node
from penstock.manifest.kinds import OneOf, RecordKind, Text, exactly_one
from penstock.manifest.paths import SCRIPTS, FilePathKind

MAX_SOURCE_BYTES = 262_144
ENGINES = ("wasm", "deno")
ENTRYPOINT = "run"


class Execution(Struct, frozen=True, kw_only=True):
    """The script of a tool: source in the manifest, or a file."""

    script: str | None = None
    """The source, if it is in the manifest."""
    script_file: str | None = None
    """Relative to the folder of the manifest."""
    entrypoint: str = ENTRYPOINT
    """The function that is called."""
    engine: str | None = None
    """The requested engine; None means the project's."""
    script_at: SourceRange
    """Position of the first character of the source, or of the file's path."""
    is_verbatim: bool = True
    """The lines of the source are lines of the manifest; otherwise only its start has a position.
    """

    def place_of(self, line: int, column: int) -> SourceRange:
        """Return the position in the manifest of a character of the source."""
        at = self.script_at
        if not self.is_verbatim:
            return at
        return SourceRange(line=at.line + line - 1, column=at.column + column - 1)


def _execution(node: Node, values: dict[str, Any]) -> Execution:
    exactly_one(node, "script", "script_file")
    script = node.at("script")
    is_inline = isinstance(script.value, str)
    places = script.document.values
    at = node.at("script_file").place
    if is_inline:
        at = places.content(script.path, script.value)
    return Execution(
        script=values["script"],
        script_file=values["script_file"],
        entrypoint=values["entrypoint"],
        engine=values["engine"],
        script_at=at,
        is_verbatim=not is_inline or places.is_verbatim(script.path, script.value),
    )


class Entrypoint(Struct, frozen=True, kw_only=True):
    """A name that a module may export."""

    expected: str = "the name of an exported function"

    def read(self, node: Node) -> str | Invalid:
        """Return the name."""
        if not isinstance(node.value, str):
            return node.wrong_type(self.expected)
        is_name = node.value.replace("$", "_").isidentifier()
        return node.value if is_name else node.bad_value(self.expected)


FIELDS = (
    Field(
        key="type",
        kind=OneOf(words=("script",)),
        required=True,
        meaning="The only type.",
    ),
    Field(
        key="script",
        kind=Text(expected="JavaScript or TypeScript source", least=1, max_bytes=MAX_SOURCE_BYTES),
        meaning="The source, as TypeScript. Set either this or `script_file`.",
    ),
    Field(
        key="script_file",
        kind=FilePathKind(
            expected="a relative path to a .mts, .mjs, .ts or .js file", endings=SCRIPTS
        ),
        meaning="The source in a file below the manifest's folder.",
    ),
    Field(
        key="entrypoint",
        kind=Entrypoint(),
        default=ENTRYPOINT,
        meaning="The exported function to call with the input.",
    ),
    Field(
        key="engine",
        kind=OneOf(words=ENGINES),
        meaning="The engine to run in, instead of the project's.",
    ),
)
EXECUTION = RecordKind(fields=FIELDS, build=_execution)
