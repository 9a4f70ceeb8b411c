"""The signature of a Python function as a tool: parameters, schemas, description, and its errors.

All errors of a function are collected as findings with their lines, so an author sees them at once.
pydantic builds the input model and its schema; a foreign schema is taken as it is.
Proof: `tests/tools/python/test_signature.py`.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, field
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.core.foreign_code import CaughtError
from penstock.core.json_values.schema import Schema, json_problems
from penstock.core.text import cut
from penstock.resources.dependencies import Depends
from penstock.tools.outputs import BYTES
from penstock.tools.python.context import ToolContext
from penstock.tools.python.docstring import parse_docstring
from penstock.tools.python.foreign_input import ForeignInput, mismatches, read_foreign
from penstock.tools.python.inlined_schema import inlined

MESSAGE_CHARACTERS = 300
_UNTYPED = (Any, dict, None, type(None), inspect.Parameter.empty)
_OF_METHODS = ("self", "cls")
_ENCODED = repr("contentEncoding")
_SCALARS = (str, int, float, bool)
_STRANGE: Mapping[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only; remove the /",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values; take a list",
    inspect.Parameter.VAR_KEYWORD: "takes any name; name each parameter, or take a dict",
}


class Signature(Struct, kw_only=True):
    """A function's parameters, result and errors."""

    description: str
    contexts: tuple[str, ...] = ()
    """Parameters that get the ToolContext."""
    needs: Any = None
    """The type of the dependencies that its context has; None if it needs none."""
    depends: dict[str, Depends] = field(default_factory=dict)
    """Parameters that functions provide."""
    hints: dict[str, Any] = field(default_factory=dict)
    """The types of these parameters."""
    names: dict[str, str] = field(default_factory=dict)
    """Fields of `model` to parameters of the function."""
    plain: dict[str, type] = field(default_factory=dict)
    """Parameters that take their JSON value unchanged if it has exactly this type."""
    line: int = 1
    model: type[BaseModel] = BaseModel
    """Builds typed values. Unused while there are findings."""
    input_schema: Json = field(default_factory=dict)
    foreign: ForeignInput | None = None
    """How the function gets inputs of a schema that its hints did not make."""
    takes_bytes: bool = False
    gives_bytes: bool = False
    output_schema: Json | None = None
    findings: list[Diagnostic] = field(default_factory=list)


def read_signature(function: Callable[..., Any], input_schema: Json | None = None) -> Signature:
    """Read a function, and collect all of its errors. Hints make the schema if none is passed."""
    return _Reader(function).read(input_schema)


class _Schemas(GenerateJsonSchema):
    """Schemas that declare bytes as base64, in inputs and outputs."""

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of bytes. Bounds of their length are checked after decoding."""
        return {**BYTES}


class _Reader:
    """Reads one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._lines = _Lines(function)
        text, self._descriptions = parse_docstring(inspect.getdoc(function) or "")
        self._signature = Signature(description=text, line=self._lines.line_of(""))

    def read(self, input_schema: Json | None) -> Signature:
        """Return the signature with all findings."""
        signature = self._signature
        hints: dict[str, Any] = {}
        with CaughtError() as fault:
            hints = get_type_hints(self._function, include_extras=True)
        if fault.error is not None:
            for name, hint, error in _unreadable(self._function):
                remedy = ""
                if isinstance(error, NameError):
                    remedy = "; import it at the top, not under `if TYPE_CHECKING:`"
                text = f"a hint cannot be read: {_text_of(error)}, in {name}: {hint}{remedy}"
                self._find("python-hint", text, name)
            return signature
        parameters = inspect.signature(self._function).parameters.values()
        signature.contexts = tuple(p.name for p in parameters if _is_context(hints.get(p.name)))
        for name in signature.contexts:
            signature.needs = _needs_of(hints[name]) or signature.needs
        for parameter in parameters:
            if (depends := _depends_of(hints.get(parameter.name))) is not None:
                signature.depends[parameter.name] = depends
                signature.hints[parameter.name] = get_args(hints[parameter.name])[0]
        given = {*signature.contexts, *signature.depends}
        taken = [each for each in parameters if each.name not in given]
        if inspect.isasyncgenfunction(self._function) or inspect.isgeneratorfunction(
            self._function
        ):
            self._find("python-hint", "it yields values; a tool returns one")
        self._take(taken, hints, input_schema)
        if not signature.findings:
            self._make_output(hints.get("return", inspect.Parameter.empty))
        return signature

    def _take(
        self, taken: list[inspect.Parameter], hints: Mapping[str, Any], schema: Json | None
    ) -> None:
        """Read how the parameters get an input: by their hints, or by a schema from elsewhere."""
        signature = self._signature
        if schema is None:
            fields = dict(self._fields(taken, hints))
            if not signature.findings:
                self._make_model(taken, fields)
            return
        for problem, name in mismatches(schema, taken, hints):
            self._find("python-parameter", problem, name)
        signature.foreign = read_foreign(schema, taken, hints)
        signature.input_schema = signature.foreign.schema

    def _fields(
        self, taken: list[inspect.Parameter], hints: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        for number, parameter in enumerate(taken):
            name = parameter.name
            if problem := _STRANGE.get(parameter.kind):
                self._find("python-parameter", f"the parameter {name!r} {problem}", name)
            elif name not in hints and name in _OF_METHODS and _is_method(self._function):
                hint = "pass a bound one, such as tools=[shop.buy]"
                self._find("python-parameter", f"it is a method of a class; {hint}", name)
            elif name not in hints:
                hint = f"add one, such as {name}: str"
                self._find("python-hint", f"the parameter {name!r} has no type hint; {hint}", name)
            elif isinstance(parameter.default, FieldInfo):
                hint = f"has a Field as its default; write {name}: Annotated[…, Field(…)] = …"
                self._find("python-parameter", f"the parameter {name!r} {hint}", name)
            elif (problem := _problem_of(hints[name])) is not None:
                self._find("python-hint", f"the parameter {name!r}: {problem}", name)
            else:
                self._signature.names[f"p{number}"] = name
                if (bare := _bare(hints[name])) in _SCALARS:
                    self._signature.plain[name] = bare
                yield f"p{number}", (hints[name], self._field(parameter, hints[name]))

    def _field(self, parameter: inspect.Parameter, hint: Any) -> Any:
        more: dict[str, Any] = {"alias": parameter.name}
        if parameter.default is not inspect.Parameter.empty:
            more["default"] = None
        if parameter.name in self._descriptions and not _describes(hint):
            more["description"] = self._descriptions[parameter.name]
        return Field(**more)

    def _make_model(self, taken: list[inspect.Parameter], fields: dict[str, Any]) -> None:
        config = ConfigDict(extra="forbid", protected_namespaces=(), arbitrary_types_allowed=False)
        signature = self._signature
        with CaughtError() as fault:
            signature.model = create_model("Input", __config__=config, **fields)
            made = signature.model.model_json_schema(schema_generator=_Schemas)
            schema = inlined(made, formats=True)
            _show_defaults(schema, taken)
            Schema(schema)
            signature.input_schema = schema
            signature.takes_bytes = _ENCODED in repr(schema)
        if fault.error is not None:
            self._find("python-hint", f"the hints make no JSON Schema: {_text_of(fault.error)}")

    def _make_output(self, hint: Any) -> None:
        if hint in _UNTYPED:
            return
        with CaughtError() as fault:
            schema = inlined(_schema_of_output(hint), formats=False)
            Schema(schema)
            self._signature.output_schema = schema or None
            self._signature.gives_bytes = _ENCODED in repr(schema)
        if fault.error is not None:
            problem = f"what it returns, {_name(hint)}, has no JSON form: {_text_of(fault.error)}"
            self._find("python-hint", problem)

    def _find(self, code: str, message: str, parameter: str = "") -> None:
        name = getattr(self._function, "__name__", "?")
        code_object = getattr(self._function, "__code__", None)
        finding = Diagnostic(
            code=code,
            message=f"tool {name!r}: {message}",
            file=Path(code_object.co_filename).name if code_object else "",
            line=self._lines.line_of(parameter),
        )
        self._signature.findings.append(finding)


class _Lines:
    """The lines of a function and its parameters in their file."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lines: dict[str, int] = {}
        try:
            source, first = inspect.getsourcelines(function)
            node = ast.parse(textwrap.dedent("".join(source))).body[0]
        except (OSError, TypeError, SyntaxError, IndexError):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            taken = node.args
            every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
            self._lines = {each.arg: first + each.lineno - 1 for each in every if each is not None}
            self._lines[""] = first + node.lineno - 1

    def line_of(self, parameter: str) -> int:
        """Return the line of a parameter, or of the function itself."""
        return self._lines.get(parameter, self._lines.get("", 1))


def _unreadable(function: Callable[..., Any]) -> Iterator[tuple[str, Any, Exception]]:
    """Yield the annotations that cannot be resolved, with the names of their parameters."""
    bare = inspect.unwrap(function)
    names = getattr(bare, "__globals__", {})
    for name, hint in bare.__annotations__.items():
        with CaughtError() as fault:
            get_type_hints(SimpleNamespace(__annotations__={name: hint}), names)
        if fault.error is not None:
            yield name, hint, fault.error


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether a function is defined in a class and not bound to an object of it."""
    home, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    return bool(home) and not home.endswith("<locals>") and inspect.isfunction(function)


def _is_context(hint: Any) -> bool:
    if hint is ToolContext or get_origin(hint) is ToolContext:
        return True
    return any(each is ToolContext or get_origin(each) is ToolContext for each in get_args(hint))


def _needs_of(hint: Any) -> Any:
    """Return the type of the dependencies of a context; None for a context without them."""
    if get_origin(hint) is ToolContext:
        (needed,) = get_args(hint)
        return None if needed is object else needed
    return next((found for each in get_args(hint) if (found := _needs_of(each)) is not None), None)


def _depends_of(hint: Any) -> Depends | None:
    if get_origin(hint) is not Annotated:
        return None
    return next((each for each in get_args(hint)[1:] if isinstance(each, Depends)), None)


def _bare(hint: Any) -> Any:
    """Return the hint without annotations that its JSON Schema contains already."""
    if get_origin(hint) is not Annotated:
        return hint
    bare, *more = get_args(hint)
    return bare if all(isinstance(each, FieldInfo | str) for each in more) else hint


def _describes(hint: Any) -> bool:
    """Whether the hint is Annotated with a description of its own."""
    if get_origin(hint) is not Annotated:
        return False
    return any(isinstance(each, FieldInfo) and each.description for each in get_args(hint)[1:])


def _schema_of_output(hint: Any) -> dict[str, Any]:
    if holds_struct(hint):  # pydantic has no schema of msgspec structs
        return msgspec.json.schema(hint)
    return TypeAdapter(hint).json_schema(mode="serialization", schema_generator=_Schemas)


def holds_struct(hint: Any) -> bool:
    """Whether a hint is or contains a msgspec struct, which pydantic does not know."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        return True
    return any(map(holds_struct, get_args(hint)))


def _problem_of(hint: Any) -> str | None:
    with CaughtError() as fault:
        TypeAdapter(hint).json_schema()
    if fault.error is None:
        return None
    return f"{_name(hint)} has no JSON form: {_text_of(fault.error)}"


def _show_defaults(schema: dict[str, Any], taken: list[inspect.Parameter]) -> None:
    """Show the defaults that are JSON in the schema. The function itself applies them."""
    shown = schema.setdefault("properties", {})
    for parameter in taken:
        described = shown.get(parameter.name, {})
        described.pop("default", None)
        default = parameter.default
        is_shown = isinstance(default, str | int | float | None)
        if is_shown and not any(json_problems(default, depth=1)):
            described["default"] = default


def _name(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint)


def _text_of(error: Exception) -> str:
    """Return the message of an error in one line, without pydantic's link to its documentation."""
    text = str(error).partition("\n\nFor further information")[0]
    return cut(" ".join(text.split()), MESSAGE_CHARACTERS) or type(error).__name__
