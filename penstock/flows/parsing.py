"""Parses a flow from its text, with the positions of its parts and all problems in the text.

The text is one YAML document, or two between `---` lines that are merged into one mapping.
`read_flow` never raises: every problem is a diagnostic at its line. Tests:
tests/flows/test_parsing.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from penstock.agents.agent_folders import MAX_BYTES
from penstock.core.diagnostics import has_error
from penstock.core.events.flow_events import FlowStarted, ValueType
from penstock.flows.definition import DEFAULT_PARALLEL, Flow, RunInput
from penstock.flows.parsed_flow import ParsedFlow, ParsedStep
from penstock.flows.step_parsing import read_steps
from penstock.flows.steps.kind import CONFIG, IgnoredValue, LenientBoolean
from penstock.manifest.authored_kinds import (
    IDENTIFIER,
    VALUE_TYPE,
    AuthoredInteger,
    fits,
    part,
    required,
    warn,
    warn_unknown,
)
from penstock.manifest.document import Document, SourceMap, SourceRange, YamlPath
from penstock.manifest.fields import WRONG, Field, Invalid, Node, described, quoted
from penstock.manifest.files import NO_FOLDER
from penstock.manifest.kinds import Boolean, Text
from penstock.manifest.yaml_document import FENCE, parse_yaml

MARKDOWN = "```"
SEVERAL = "yaml-many-documents"
WHAT = "the flow"
MAX_PARALLEL = 64
_CACHE_SIZE = 32
"""Number of parsed flows that are kept, so that their next run need not parse them."""
_TEXT = Text(expected="text", least=1)
_TOP = SourceRange(line=1, column=1)
"""Place of problems that concern the whole file. Files around the flow are left to the checks."""
INPUT_FIELDS = ("type", "required", "default", "description")
TASK = "task"
"""Key of the task where task and inputs are given as one mapping."""


class RunInputsKind(Struct, frozen=True, kw_only=True):
    """The kind of the field `inputs`."""

    expected: str = "a mapping of names to {type, required, default, description}"

    def read(self, node: Node) -> tuple[RunInput, ...] | Invalid:
        """Return the valid inputs."""
        if node.value is None:
            return ()
        if not isinstance(node.value, dict):
            return node.wrong_type(self.expected)
        inputs = [_run_input(node.at(name), name) for name in node.value]
        return tuple(each for each in inputs if each is not None)


FIELDS = (
    Field(key="name", kind=_TEXT, meaning="for people", required=True, default=""),
    Field(key="description", kind=_TEXT, meaning="for lists", required=True, default=""),
    Field(
        key="max_concurrent",
        kind=AuthoredInteger(low=1, high=MAX_PARALLEL),
        meaning="agent steps of a segment at once",
        default=DEFAULT_PARALLEL,
    ),
    Field(
        key="task_required", kind=LenientBoolean(), meaning="a start needs a task", default=False
    ),
    Field(key="task_prompt", kind=_TEXT, meaning="the text of that question"),
    Field(key="config", kind=CONFIG, meaning="constants of templates", default={}),
    Field(key="inputs", kind=RunInputsKind(), meaning="typed inputs of a run", default=()),
)
STEPS, NO_EFFECT = "steps", "auto_end"
KNOWN = (*(each.key for each in FIELDS), STEPS, NO_EFFECT)


def read_flow(text: str | bytes, file: str = "") -> ParsedFlow:
    """Parse a flow. Never raises: problems are in the result."""
    document = parse_flow(text, file)
    if document.value is None:
        return ParsedFlow(document=document, source=text)
    node = Node(document=document, home=NO_FOLDER, what=WHAT, value=document.value)
    warn_unknown(node, KNOWN, WHAT)
    if NO_EFFECT in node.value:
        warn(node.at(NO_EFFECT), "no-effect", f'"{NO_EFFECT}" is accepted and has no effect')
    values = {each.key: _read(node, each) for each in FIELDS}
    steps = read_steps(node.at(STEPS)) if STEPS in node.value else _missing(node, STEPS)
    return ParsedFlow(
        document=document,
        source=text,
        steps=steps,
        flow=None if has_error(document.problems) else _flow(values, steps),
        inputs=[each.name for each in values["inputs"]],
    )


@lru_cache(_CACHE_SIZE)
def flow_of(text: str, file: str) -> Flow | None:
    """Return the flow of a text, or None if it has errors. Cached for later runs of the text."""
    return read_flow(text, file).flow


def started_flow(started: FlowStarted) -> Flow | None:
    """Return the flow stored with a run, or None if it has errors."""
    return flow_of(started.texts[started.file], started.file)


class MergedSourceMap(SourceMap):
    """Source map of several documents that are read as one."""

    def __init__(self, parts: Mapping[str, SourceMap], rest: SourceMap) -> None:
        super().__init__()
        self._parts = parts
        """By the first key of a path."""
        self._rest = rest

    def __getitem__(self, path: YamlPath) -> SourceRange:
        """Return the place of a part."""
        return self._of(path)[path]

    def __contains__(self, path: object) -> bool:
        """Whether the part exists."""
        return isinstance(path, tuple) and path in self._of(path)

    def __iter__(self) -> Iterator[YamlPath]:
        """Yield the paths."""
        for key, places in self._parts.items():
            yield from (path for path in places if path and path[0] == key)

    def __len__(self) -> int:
        """Return the number of parts."""
        return sum(1 for _ in self)

    def content(self, path: YamlPath, text: str) -> SourceRange:
        """Return the place of the first character of a text, after its quote or `|`."""
        return self._of(path).content(path, text)

    def _of(self, path: YamlPath) -> SourceMap:
        return self._parts.get(str(path[0]), self._rest) if path else self._rest


def parse_flow(text: str | bytes, file: str) -> Document:
    """Parse the mapping of a flow. Never raises: errors are in `problems`.

    The value is None if the text cannot be parsed.
    """
    document = Document(file=file)
    decoded = _decoded(text, document)
    if decoded is None:
        return document
    if decoded.startswith(MARKDOWN):
        message = "not valid YAML: the file begins with a Markdown fence"
        document.problem("yaml-syntax", message, _TOP, "remove the Markdown fence")
        return document
    document = _joined(decoded, file)
    if document.is_read and not isinstance(document.value, dict):
        at = document.values.get((), _TOP)
        message = f"a manifest must be a mapping, found {described(document.value)}"
        document.problem("yaml-not-mapping", message, at)
    is_several = any(each.code == SEVERAL for each in document.problems)
    if is_several or not document.is_read or not isinstance(document.value, dict):
        document.value = None
    return document


def _read(node: Node, field: Field) -> Any:
    if field.key not in node.value:
        if field.required:
            _missing(node, field.key)
        return field.default
    value = field.kind.read(node.at(field.key))
    return field.default if value is WRONG else value


def _missing(node: Node, key: str) -> Sequence[ParsedStep]:
    node.refuse(
        "missing-field",
        f'missing required field "{key}"',
        at=_TOP,
        suggestion=f'add "{key}:" at the top of the file',
    )
    return ()


def _flow(values: Mapping[str, Any], steps: Sequence[ParsedStep]) -> Flow:
    return Flow(
        name=values["name"],
        description=values["description"],
        steps=tuple(each.step for each in steps),
        max_concurrent=values["max_concurrent"],
        needs_task=values["task_required"],
        task_prompt=values["task_prompt"],
        config=values["config"],
        inputs=values["inputs"],
    )


def _run_input(node: Node, name: str) -> RunInput | None:
    if not IDENTIFIER.fullmatch(name):
        node.refuse(
            "bad-input-name", f"input {quoted(name)} must be an identifier", at=node.key_place
        )
        return None
    if not isinstance(node.value, dict):
        node.wrong_type("{type, required, default, description}")
        return None
    if name == TASK:
        message = (
            f"input {quoted(name)} cannot be set in a chat, where it means the task of the run"
        )
        warn(node, "task-input", message, 'give it another name, or read "${{task}}"')
    warn_unknown(node, INPUT_FIELDS, node.name)
    word = required(node, "type", VALUE_TYPE)
    if word is WRONG:
        return None
    value_type = ValueType(word)
    default = part(node, "default", IgnoredValue(), None)
    if default is not None and not fits(default, value_type):
        node.at("default").wrong_type(_called(value_type))
    return RunInput(
        name=name,
        value_type=value_type,
        is_required=part(node, "required", Boolean(), default=False),
        default=default,
        description=part(node, "description", Text(expected="text"), ""),
    )


def _called(value_type: ValueType) -> str:
    article = "an" if value_type in {ValueType.OBJECT, ValueType.ARRAY} else "a"
    return f"{article} {value_type}"


def _decoded(text: str | bytes, document: Document) -> str | None:
    """Return the text without a byte order mark, or None if it is too long or not UTF-8."""
    size = len(text) if isinstance(text, bytes) or len(text) > MAX_BYTES else _size(text)
    if size > MAX_BYTES:
        message = f"the flow has {size} bytes; the limit is {MAX_BYTES}"
        document.problem("file-too-large", message, _TOP)
        return None
    try:
        whole = text.decode() if isinstance(text, bytes) else text.encode().decode()
    except UnicodeDecodeError as error:
        document.problem("file-encoding", f"not UTF-8 at byte {error.start}", _TOP)
        return None
    except UnicodeEncodeError as error:
        before = len(str(text)[: error.start].encode())
        document.problem("file-encoding", f"not UTF-8 at byte {before}", _TOP)
        return None
    return whole.removeprefix("\ufeff")


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _joined(text: str, file: str) -> Document:
    """Parse a plain document, or join the two parts of a fenced one."""
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if line.rstrip() == FENCE]
    first = next((number for number, line in enumerate(lines) if _counts(line)), -1)
    match fences:
        case [start, middle] if start == first:
            pass
        case [start, _, third, *_] if start == first:
            document = Document(file=file)
            message = f"a flow has at most two documents; found {len(fences)}"
            document.problem(SEVERAL, message, SourceRange(line=third + 1, column=1))
            return document
        case _:
            return parse_yaml(text, file)
    head = parse_yaml("\n".join(lines[start + 1 : middle]), file, first_line=start + 2)
    rest = parse_yaml("\n".join(lines[middle + 1 :]), file, first_line=middle + 2)
    return _merged(head, rest)


def _counts(line: str) -> bool:
    """Whether a line is neither blank nor a comment."""
    return bool(line.strip()) and not line.startswith("#")


def _merged(head: Document, rest: Document) -> Document:
    """Join two mappings. An empty part adds nothing."""
    document = Document(file=head.file, problems=[*head.problems, *rest.problems])
    document.is_read = head.is_read and rest.is_read
    mappings = [half for half in (head, rest) if half.value is not None]
    for mapping in mappings:
        if not isinstance(mapping.value, dict):
            document.value, document.values = mapping.value, mapping.values
            return document
    keys: dict[str, SourceMap] = {}
    values: dict[str, SourceMap] = {}
    document.value = {}
    for mapping in mappings:
        for key, value in mapping.value.items():
            if key in document.value:
                message = f'key "{key}" appears twice; first at line {keys[key][key,].line}'
                document.problem("yaml-duplicate-key", message, mapping.keys[key,])
                continue
            document.value[key] = value
            keys[key], values[key] = mapping.keys, mapping.values
    document.keys = MergedSourceMap(keys, head.keys)
    document.values = MergedSourceMap(values, head.values)
    return document
