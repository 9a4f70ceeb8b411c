"""A dataset: cases with the scorers that they share, made in Python or read from a file.

A file has a table of cases and of scorers (YAML), or a case in each line (JSONL). Reading a file
never stops at its first problem: all problems are reported with their lines before any model is
asked, because a run that fails at case 80 has paid for 79. Shown by tests/evals/test_dataset.py.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Generic

from msgspec import Struct

from penstock.core.diagnostics import nearest
from penstock.core.errors import ConfigError, DeclarationError
from penstock.core.json_values.json_text import parse_json
from penstock.evals.case import (
    MAX_ANSWERS,
    AnyScorer,
    Case,
    OutputT,
    check_scorers,
    is_list,
    is_text,
)
from penstock.evals.scorers import (
    CalledTool,
    Contains,
    Equal,
    Judge,
    Matches,
    MaxCost,
    MaxSeconds,
    MaxTurns,
)
from penstock.manifest.document import Document, SourceRange, YamlPath
from penstock.manifest.fields import WRONG, Field, Kind, Node, read_fields
from penstock.manifest.files import NO_FOLDER
from penstock.manifest.kinds import (
    Boolean,
    Integer,
    ListOf,
    NonEmptyText,
    Number,
    RecordKind,
    Text,
    refuse_doubles,
)
from penstock.manifest.yaml_document import parse_yaml

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Most bytes of a file of cases: more is a corpus, which belongs in Python."""
MAX_CASES = 100_000
ENDINGS = (".yaml", ".yml", ".jsonl")
MAX_SCORERS = 100


@dataclass(frozen=True)
class Dataset(Generic[OutputT]):
    """Cases under one name, with the scorers that all of them share.

    Args:
        name: The name of the dataset in reports.
        cases: The cases.
        scorers: Scorers of every case. A case passes if all of its scorers pass.
        agent: The agent that a file names; `evaluate` takes its own.

    Raises:
        ConfigError: There is no case, two have one name, or a scorer cannot be called.

    Example:
        >>> from penstock.evals import Case, Contains, Dataset
        >>> greets = Case("greets", input="Hello")
        >>> len(Dataset("manners", [greets], scorers=[Contains("Hello")]).cases)
        1
    """

    name: str
    cases: Sequence[Case[OutputT]]
    _: KW_ONLY
    scorers: Sequence[AnyScorer[OutputT]] = ()
    agent: str | None = None

    def __post_init__(self) -> None:
        """Check the names of the cases: they identify a case in later runs."""
        if not (is_text(self.name) and is_list(self.cases)):
            raise ConfigError(
                "Dataset takes a name and a list of cases, such as Dataset('triage', [case]); "
                f"found {self.name!r} and {self.cases!r}"
            )
        cases: Sequence[object] = self.cases
        if others := [each for each in cases if not isinstance(each, Case)]:
            raise ConfigError(f"the dataset {self.name!r} takes Case objects, found {others[0]!r}")
        check_scorers(self.scorers, f"the dataset {self.name!r}")
        names = Counter(case.name for case in self.cases)
        if not names:
            raise ConfigError(f"the dataset {self.name!r} has no cases: add at least one")
        if twice := sorted(name for name, count in names.items() if count > 1):
            raise ConfigError(
                f"the dataset {self.name!r} has several cases named {twice[0]!r}: "
                "a name must be unique, because later runs are compared by it"
            )

    @classmethod
    def from_file(cls, path: Path | str) -> "Dataset[Any]":
        """Read a dataset from a YAML or JSONL file.

        Args:
            path: A file that ends in `.yaml`, `.yml` or `.jsonl`.

        Returns:
            The dataset.

        Raises:
            DeclarationError: The file has problems; all of them are listed with their lines.
            ConfigError: The file cannot be read, or has another ending.
        """
        path = Path(path)
        if path.suffix not in ENDINGS:
            raise ConfigError(f"{path} must end in .yaml, .yml or .jsonl to be read as cases")
        text, file = text_of(path), str(path)
        document = _parse_lines(text, file) if path.suffix == ".jsonl" else parse_yaml(text, file)
        fields = _read(document)
        if fields is None or document.problems:
            raise DeclarationError(document.problems)
        return cls(fields.pop("name") or path.stem, fields.pop("cases"), **fields)


class AnyValue(Struct, frozen=True):
    """Any JSON value."""

    expected: str = "a JSON value"

    def read(self, node: Node) -> Any:
        """Return the value."""
        return node.value


class AnyMapping(Struct, frozen=True):
    """A mapping whose keys the author chooses."""

    expected: str = "a mapping"

    def read(self, node: Node) -> Any:
        """Return the mapping."""
        return node.value if isinstance(node.value, dict) else node.wrong_type(self.expected)


class ScorerKind(Struct, frozen=True):
    """A scorer: its name, or a mapping from its name to its options."""

    expected: str = "a scorer, such as equal or {contains: text}"

    def read(self, node: Node) -> Any:
        """Return the scorer, or add a diagnostic."""
        if isinstance(node.value, str):
            name, options = node.value, None
        elif isinstance(node.value, dict) and len(node.value) == 1:
            (name,) = node.value
            options = node.at(name)
        else:
            return node.wrong_type(self.expected)
        row = _SCORERS.get(name)
        if row is None or not row.takes(options):
            forms = (form for key, each in _SCORERS.items() for form in each.forms(key))
            return node.bad_value(f"one of {', '.join(forms)}")
        value = options and row.kind and row.kind.read(options)
        if value is WRONG:
            return WRONG
        try:
            return row.make(value)
        except ConfigError as error:
            return node.refuse("bad-value", str(error))


class _ScorerRow(Struct, frozen=True):
    kind: Kind | None
    """The kind of the options; None if there are none."""
    make: Callable[[Any], AnyScorer[Any]]
    is_bare: bool = False
    """Whether the options may be left out."""

    def takes(self, options: Node | None) -> bool:
        """Return whether the scorer may have these options, or none."""
        return self.kind is None or self.is_bare if options is None else self.kind is not None

    def forms(self, name: str) -> Iterator[str]:
        """Yield how a file may write the scorer."""
        if self.kind is None or self.is_bare:
            yield name
        if self.kind is not None:
            yield f"{{{name}: …}}"


_TEXT = Text(least=1, expected="a non-empty string")
_TOOL = NonEmptyText(expected="the id of a tool")
_CALLED = RecordKind(
    fields=(
        Field(key="tool", kind=_TOOL, required=True, meaning="The tool."),
        Field(key="input", kind=AnyMapping(), default={}, meaning="Part of its input."),
    ),
    build=lambda _, values: CalledTool(values["tool"] or "", **values["input"]),
)
_MATCHES = RecordKind(
    fields=(
        Field(key="regex", kind=_TEXT, meaning="Searched in the answer."),
        Field(key="schema", kind=AnyMapping(), meaning="A JSON Schema of the output."),
    ),
    build=lambda _, values: values,
)
_JUDGE = RecordKind(
    fields=(
        Field(key="model", kind=_TEXT, required=True, meaning="The model that judges."),
        Field(key="rubric", kind=_TEXT, required=True, meaning="What makes a good reply."),
    ),
    build=lambda _, values: values,
)
_SCORERS: dict[str, _ScorerRow] = {
    "equal": _ScorerRow(None, lambda _: Equal()),
    "contains": _ScorerRow(_TEXT, Contains, is_bare=True),
    "matches": _ScorerRow(_MATCHES, lambda values: Matches(**values)),
    "called_tool": _ScorerRow(_CALLED, lambda scorer: scorer),
    "not_called": _ScorerRow(_TOOL, CalledTool.never),
    "called_in_order": _ScorerRow(
        ListOf(item=_TOOL, expected="a list of tools", least=1, most=MAX_SCORERS),
        lambda tools: CalledTool.in_order(*tools),
    ),
    "max_cost": _ScorerRow(Number(low=0, high=1e6), MaxCost),
    "max_turns": _ScorerRow(Integer(low=1, high=10**6), MaxTurns),
    "max_seconds": _ScorerRow(Number(low=0, high=1e6), MaxSeconds),
    "judge": _ScorerRow(_JUDGE, lambda values: Judge(**values)),
}


def _case(node: Node, values: dict[str, Any]) -> Any:
    try:
        return Case(**values)
    except ConfigError as error:
        return node.refuse("bad-value", str(error))


_SCORER_LIST = ListOf(item=ScorerKind(), expected="a list of scorers", most=MAX_SCORERS)
_CASE = RecordKind(
    fields=(
        Field(key="name", kind=_TEXT, required=True, default="?", meaning="A unique name."),
        Field(key="input", kind=_TEXT, required=True, default="", meaning="The message."),
        Field(key="expected", kind=AnyValue(), meaning="What `equal` compares with."),
        Field(
            key="answers",
            kind=ListOf(item=AnyMapping(), expected="a list of answers", most=MAX_ANSWERS),
            default=(),
            meaning="Answers to its questions, in their order.",
        ),
        Field(
            key="approve", kind=Boolean(), default=False, meaning="Whether approvals are granted."
        ),
        Field(key="metadata", kind=AnyMapping(), default={}, meaning="Anything for your scorers."),
        Field(key="scorers", kind=_SCORER_LIST, default=(), meaning="Further scorers."),
    ),
    build=_case,
    expected="a mapping with a name and an input",
)
_FIELDS = (
    Field(key="name", kind=_TEXT, meaning="The name of the dataset; the file's by default."),
    Field(key="agent", kind=_TEXT, meaning="The agent that is asked."),
    Field(key="scorers", kind=_SCORER_LIST, default=(), meaning="Scorers of every case."),
    Field(
        key="cases",
        kind=ListOf(item=_CASE, expected="a list of cases", least=1, most=MAX_CASES),
        required=True,
        meaning="The cases.",
    ),
)


def _read(document: Document) -> dict[str, Any] | None:
    """Return the fields of a dataset; None if the document is none. Problems are added to it."""
    node = Node(document=document, home=NO_FOLDER, what="a file of cases", value=document.value)
    if not document.is_read:
        return None
    if not isinstance(document.value, dict):
        node.wrong_type("a mapping with a list of cases")
        return None
    fields = read_fields(node, _FIELDS)
    refuse_doubles(node.at("cases"), "the case", "name")
    return fields


def text_of(path: Path) -> str:
    """Return the text of a file of cases. Raises ConfigError."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(
                f"{path} has more than {MAX_FILE_BYTES} bytes: split it, or make cases in Python"
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}.{_like(path)}") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: {error}") from None


def _like(path: Path) -> str:
    """Return a file of cases with a similar name: next to a missing one, or in `evals`."""
    folders = dict.fromkeys([path.parent, Path("evals")])
    files = (file for folder in folders if folder.is_dir() for file in folder.iterdir())
    known = {file.name: str(file) for file in files if file.suffix in ENDINGS}
    name = path.name if path.name in known else nearest(path.name, known)
    return f" Did you mean {known[name]!r}?" if name else ""


def _parse_lines(text: str, file: str) -> Document:
    """Read JSONL as a document `{cases: [...]}`; a part of a case is at the line of its case."""
    cases: list[Any] = []
    document = Document(file=file, value={"cases": cases}, is_read=True)
    document.values.mark(("cases",), 0, 0, 0)
    for number, line in enumerate(text.splitlines()):
        if not line.strip():
            continue
        try:
            case = parse_json(line)
        except (ValueError, RecursionError) as error:
            place = SourceRange(line=number + 1, column=1, end_column=len(line) + 1)
            document.problem("bad-value", f"not valid JSON: {error}", place)
            continue
        for path in _paths(case, ("cases", len(cases))):
            document.values.mark(path, number, 0, len(line))
        cases.append(case)
    return document


def _paths(value: Any, path: YamlPath) -> Iterator[YamlPath]:
    """Yield the path of a value and of everything in it."""
    yield path
    if isinstance(value, dict):
        parts: Iterable[tuple[str | int, Any]] = value.items()
    else:
        parts = enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _paths(part, (*path, key))
