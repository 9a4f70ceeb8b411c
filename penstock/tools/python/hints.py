"""Reads type hints with pydantic: the signature of a function as a tool, and the types of outputs.

All errors of a function are collected as findings with their lines, so an author sees them at once.
pydantic builds the input model and its schema; a foreign schema is taken as it is.
Proof: `tests/tools/python/test_hints.py`.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Struct
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import from_json

from penstock.core.call_errors import ModelRetry
from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.foreign_code import CaughtError
from penstock.core.json_values.schema import Problem, Schema, pointer
from penstock.core.text import cut
from penstock.tools.outputs import BYTES
from penstock.tools.python.docstring import FunctionLines, parse_docstring
from penstock.tools.python.foreign_input import mismatches, read_foreign
from penstock.tools.python.inlined_schema import inlined
from penstock.tools.python.signature import (
    Misfit,
    Signature,
    ValueForm,
    depends_of,
    is_context,
    needs_of,
    show_defaults,
    type_name,
    unreadable_hints,
)

MESSAGE_CHARACTERS = 300
_UNTYPED = (Any, dict, None, type(None), inspect.Parameter.empty)
_OF_METHODS = ("self", "cls")
_ENCODED = repr("contentEncoding")
_SCALARS: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
"""Their schemas are known: pydantic takes 0.5 ms for each schema, and a project has many tools."""
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
_STRANGE: Mapping[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only; remove the /",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values; take a list",
    inspect.Parameter.VAR_KEYWORD: "takes any name; name each parameter, or take a dict",
}


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
        self._lines = FunctionLines(function)
        text, self._descriptions = parse_docstring(inspect.getdoc(function) or "")
        self._signature = Signature(description=text, line=self._lines.line_of(""))
        self._names: dict[str, str] = {}
        """Fields of the model to parameters of the function."""

    def read(self, input_schema: Json | None) -> Signature:
        """Return the signature with all findings."""
        signature = self._signature
        hints: dict[str, Any] = {}
        with CaughtError() as fault:
            hints = get_type_hints(self._function, include_extras=True)
        if fault.error is not None:
            for name, hint, error in unreadable_hints(self._function):
                remedy = ""
                if isinstance(error, NameError):
                    remedy = "; import it at the top, not under `if TYPE_CHECKING:`"
                text = f"a hint cannot be read: {_text_of(error)}, in {name}: {hint}{remedy}"
                self._find("python-hint", text, name)
            return signature
        parameters = inspect.signature(self._function).parameters.values()
        signature.contexts = tuple(p.name for p in parameters if is_context(hints.get(p.name)))
        for name in signature.contexts:
            signature.needs = needs_of(hints[name]) or signature.needs
        for parameter in parameters:
            if (depends := depends_of(hints.get(parameter.name))) is not None:
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
                self._names[f"p{number}"] = name
                if _scalar(bare := _bare(hints[name])) is not None:
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
            model = create_model("Input", __config__=config, **fields)
            signature.convert = partial(_arguments, model, self._names)
            made = model.model_json_schema(schema_generator=_Schemas)
            schema = inlined(made, formats=True)
            show_defaults(schema, taken)
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
            problem = (
                f"what it returns, {type_name(hint)}, has no JSON form: {_text_of(fault.error)}"
            )
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


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether a function is defined in a class and not bound to an object of it."""
    home, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    return bool(home) and not home.endswith("<locals>") and inspect.isfunction(function)


def _bare(hint: Any) -> Any:
    """Return the hint without annotations that its JSON Schema contains already."""
    if get_origin(hint) is not Annotated:
        return hint
    bare, *more = get_args(hint)
    return bare if all(isinstance(each, FieldInfo | str) for each in more) else hint


def _scalar(hint: Any) -> str | None:
    """Return the JSON type of a plain scalar. Other hints may have no hash."""
    return _SCALARS.get(hint) if type(hint) is type else None


def _describes(hint: Any) -> bool:
    """Whether the hint is Annotated with a description of its own."""
    if get_origin(hint) is not Annotated:
        return False
    return any(isinstance(each, FieldInfo) and each.description for each in get_args(hint)[1:])


def _schema_of_output(hint: Any) -> dict[str, Any]:
    if (scalar := _scalar(hint)) is not None:
        return {"type": scalar}
    if _holds_struct(hint):  # pydantic has no schema of msgspec structs
        return msgspec.json.schema(hint)
    return TypeAdapter(hint).json_schema(mode="serialization", schema_generator=_Schemas)


def _holds_struct(hint: Any) -> bool:
    """Whether a hint is or contains a msgspec struct, which pydantic does not know."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        return True
    return any(map(_holds_struct, get_args(hint)))


def _problem_of(hint: Any) -> str | None:
    if _scalar(hint) is not None:
        return None
    with CaughtError() as fault:
        TypeAdapter(hint).json_schema()
    if fault.error is None:
        return None
    return f"{type_name(hint)} has no JSON form: {_text_of(fault.error)}"


def _text_of(error: Exception) -> str:
    """Return the message of an error in one line, without pydantic's link to its documentation."""
    text = str(error).partition("\n\nFor further information")[0]
    return cut(" ".join(text.split()), MESSAGE_CHARACTERS) or type(error).__name__


# ---- the types of outputs ----


def form_of(hint: Any) -> ValueForm:
    """Return how the values of a type are written. Raises ConfigError for one without a schema."""
    is_of_msgspec = _holds_struct(hint) or _is_old_typed_dict(hint)
    schema = _schema_of(hint, is_of_msgspec=is_of_msgspec)
    if is_of_msgspec:
        return ValueForm(schema, partial(_read, partial(msgspec.convert, type=hint)))
    adapter: Callable[[], TypeAdapter[Any]] = cache(partial(TypeAdapter, hint))
    # As JSON: a date or a tuple has no other form there.
    return ValueForm(
        schema, partial(_read, lambda value: adapter().validate_json(msgspec.json.encode(value)))
    )


def _read(read: Callable[[Any], Any], value: Any) -> Any:
    with CaughtError() as fault:
        return read(value)
    error = fault.error
    if isinstance(error, ValidationError):
        return Misfit(tuple(_problems_of(error)))
    if isinstance(error, msgspec.ValidationError | ModelRetry):
        return Misfit((Problem("", str(error)),))
    return Misfit((Problem("", f"a validator failed: {error!r}"),))


def _schema_of(hint: Any, *, is_of_msgspec: bool) -> Json:
    try:
        return _read_schema(hint, is_of_msgspec=is_of_msgspec)
    except _FAULTS as error:
        field = _faulty_field(hint)
        if not (isinstance(hint, type) or get_origin(hint) or field):
            raise ConfigError(f"output takes a type or a function, found {hint!r}") from error
        where = (
            f"the field {field!r} of output {type_name(hint)}"
            if field
            else f"output {type_name(hint)}"
        )
        # the next sentences of pydantic are advice for its own users
        reason = " ".join(re.split(r"\.\s|\n", str(error), maxsplit=1)[0].split())
        raise ConfigError(f"{where} has no JSON Schema: {reason}") from error


_FAULTS = (
    PydanticUserError,
    AttributeError,
    KeyError,
    NameError,
    TypeError,
    ValueError,
)
"""Errors of pydantic, msgspec and `get_type_hints` for types that they cannot describe."""


def _read_schema(hint: Any, *, is_of_msgspec: bool) -> Json:
    made = msgspec.json.schema(hint) if is_of_msgspec else TypeAdapter(hint).json_schema()
    schema = inlined(made, formats=True)
    Schema(schema)
    return schema


def _is_old_typed_dict(hint: Any) -> bool:
    """Whether pydantic refuses the hint because of a `typing.TypedDict` before Python 3.12."""
    try:
        TypeAdapter(hint)
    except PydanticUserError as error:
        return error.code == "typed-dict-version"
    except _FAULTS:
        return False
    return False


def _faulty_field(hint: Any) -> str:
    """Return the first field of a class that has no schema; empty if there is none."""
    fields: dict[str, Any] = {}
    if inspect.isclass(hint):
        with suppress(*_FAULTS):
            fields = get_type_hints(hint, include_extras=True)
    for name, each in fields.items():
        try:
            _read_schema(each, is_of_msgspec=_holds_struct(each))
        except _FAULTS:
            return name
    return ""


# ---- values ----


def text_of(value: Any) -> Any:
    """Return a date, a time, a Decimal or a UUID as its JSON text."""
    return _ANYTHING.dump_python(value, mode="json")


def begun_json(text: str) -> Any:
    """Return the value that the beginning of a JSON text holds; UNSET if there is none."""
    try:
        return from_json(text, allow_partial="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return UNSET


def _arguments(
    model: type[BaseModel], names: Mapping[str, str], arguments: Json
) -> dict[str, Any] | list[Problem]:
    try:
        made = model.model_validate(arguments)
    except ValidationError as error:
        return _problems_of(error)
    return {names[field]: getattr(made, field) for field in made.model_fields_set}


def _problems_of(error: ValidationError) -> list[Problem]:
    return [
        Problem(pointer([*each["loc"]]), each["msg"])
        for each in error.errors(include_url=False, include_context=False)
    ]
