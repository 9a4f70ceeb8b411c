"""The form of a typed output: its types, and how the model gives one.

Three modes. `tool`: one more tool, `final_answer`, whose parameters are the type; a union has one
for each member. `native`: the answer is JSON in the format of the provider. `prompted`: the system
prompt has the schema, and the first JSON object of the answer counts. All three end in the same
judgement: JSON Schema first, then the validators of the type. What is accepted is recorded as the
JSON of the model, with the name of its type; the typed value is made when a program reads it.

A contract is made once for an agent, or for a message that has a schema of its own. An output
function is a tool with the effect `write`: it runs through the invoker, once, and what it returns
is the output. Proof: tests/agents/test_output_contract.py.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.json_values.json_text import compact, parse_json, parse_json_at
from penstock.core.json_values.schema import Problem, Schema
from penstock.core.task import TaskOutput
from penstock.models.model import ModelCard, OutputFormat, ToolDefinition
from penstock.models.structured.fit import fit
from penstock.models.structured.fitted import Fitted, dialect_of
from penstock.tools.python.function import FunctionTool
from penstock.tools.python.options import Options
from penstock.tools.python.output_type import (
    OutputType,
    is_wrapper,
    output_types,
    returned,
    unwrapped,
    wrapped,
)
from penstock.tools.python.signature import Misfit
from penstock.tools.tool import Tool, with_spec

FINAL_ANSWER = "final_answer"
"""The tool by which a model hands in the output; `final_answer_Ticket` for a member of a union."""
OUTPUT_RETRIES = 2
"""How often a model may correct an output that does not fit."""
_FENCED = re.compile(r"```(?:json)?[^\S\n]*\n(.*?)```", re.DOTALL)
"""One line end opens a block: among any number, models that repeat them would cost their square."""


class OutputMode(StrEnum):
    """How a model gives the output."""

    TOOL = "tool"
    NATIVE = "native"
    PROMPTED = "prompted"


class Variant(Struct, frozen=True, kw_only=True):
    """One type of the output, and the tool that hands it in."""

    tool_id: str
    description: str
    parameters: Json
    problems: Callable[[Json], list[Problem]]
    """Returns the problems of a model's arguments."""
    is_wrapped: bool = False
    """The arguments have the output as their only member, `value`."""
    type_name: str = ""
    function: Tool | None = None
    """The output function, which runs with the arguments."""

    def output(self, arguments: Json) -> TaskOutput:
        """Return the output in arguments without problems."""
        value = unwrapped(arguments) if self.is_wrapped else dict(arguments)
        return TaskOutput(value=value, type_name=self.type_name)


class OutputContract(Struct, frozen=True, kw_only=True, dict=True):
    """The types of a task's output, and the tools or the format by which a model gives it."""

    variants: tuple[Variant, ...]
    schema: Json
    """The schema of the whole output, for clients."""
    types: tuple[OutputType, ...] = ()
    """The Python types; none if only a schema is known."""
    mode: OutputMode = OutputMode.TOOL
    retries: int = OUTPUT_RETRIES
    fitted: Fitted | None = None
    """The schema as the provider enforces it, in the mode `native`."""
    tool_choice: str | None = None
    """The choice of tools in requests to a model that can be forced, in the mode `tool`."""

    def for_model(self, card: ModelCard) -> "OutputContract":
        """Return the contract in a mode that the model knows, the chosen one if possible.

        A model without a format for the schema gets tools, one without tools the schema in words.
        Raises ConfigError if the output is a function and the model has no tools.
        """
        known = self._adapted.get(key := _kind_of(card))
        if known is None:
            known = self._adapted[key] = self._for(card)
        return known

    def refused_by(self, card: ModelCard) -> "OutputContract":
        """Return the contract without the format, from now on, for such a model."""
        self._adapted[_kind_of(card)] = without = self._without_format(card)
        return without

    @cached_property
    def _adapted(self) -> "dict[tuple[str | bool, ...], OutputContract]":
        """The contract for each kind of model. Fitting and compiling a schema takes long."""
        return {}

    def _for(self, card: ModelCard) -> "OutputContract":
        if self.mode is OutputMode.NATIVE and (dialect := dialect_of(card)) is not None:
            fitted = fit(self.schema, dialect)
            if isinstance(fitted, Fitted):
                return replace(self, fitted=fitted)
        return self._without_format(card)

    def _without_format(self, card: ModelCard) -> "OutputContract":
        if self.mode is OutputMode.PROMPTED:
            return self
        if card.tools:
            choice = "required" if card.forced_tool_choice else None
            return replace(self, mode=OutputMode.TOOL, tool_choice=choice)
        if self.functions:
            raise ConfigError(
                f"the model {card.model_id} calls no tools, so it cannot call an output function; "
                "choose another model, or a type as output"
            )
        return replace(self, mode=OutputMode.PROMPTED)

    @cached_property
    def tool_ids(self) -> frozenset[str]:
        """The tools that hand in an output."""
        return frozenset(self.by_tool)

    @cached_property
    def by_tool(self) -> dict[str, Variant]:
        """The variants by the tools that hand them in."""
        return {each.tool_id: each for each in self.variants}

    @cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """These tools as a model receives them; none in the modes without a tool."""
        if self.mode is not OutputMode.TOOL:
            return ()
        return tuple(
            ToolDefinition(
                name=each.tool_id,
                description=each.description,
                parameters=each.parameters,
                is_builtin=True,
            )
            for each in self.variants
        )

    @cached_property
    def functions(self) -> tuple[Tool, ...]:
        """The output functions."""
        return tuple(each.function for each in self.variants if each.function is not None)

    @cached_property
    def format(self) -> OutputFormat | None:
        """The form of the reply's text that the provider enforces; None in the other modes."""
        if self.fitted is None:
            return None
        name = self.variants[0].type_name if len(self.variants) == 1 else ""
        return OutputFormat(name=name or "output", schema=self.fitted.schema)

    @cached_property
    def instructions(self) -> str:
        """The part of the system prompt about the output; empty unless the mode is `prompted`."""
        if self.mode is not OutputMode.PROMPTED:
            return ""
        wanted = "Answer with one JSON object that matches this JSON Schema, and with nothing else:"
        return f"\n\n{wanted}\n{compact(self._text_schema)}"

    def judge_text(self, text: str) -> TaskOutput | list[Problem]:
        """Return the output in the text of an answer, or its problems.

        A value other than an object may be wrapped as the schema says, or bare.
        """
        found = [*_values_in(text)]
        if not found:
            return [Problem("", "the answer has no JSON in it")]
        problems: list[Problem] = []
        for value in found:
            bare = self._bare(value)
            for variant in self.variants:
                arguments = {"value": bare} if variant.is_wrapped else bare
                if not isinstance(arguments, dict):
                    refused = [Problem("", "is not an object")]
                elif not (refused := variant.problems(arguments)):
                    return variant.output(arguments)
                problems = problems or refused
        return problems

    def _bare(self, value: Any) -> Any:
        """Return the JSON of an answer without what a provider's form of the schema added."""
        if self.fitted is not None:
            value = self.fitted.restored(value)
        return unwrapped(value) if self.is_text_wrapped and is_wrapper(value) else value

    @cached_property
    def streams(self) -> bool:
        """Whether the output can be shown while a reply brings it."""
        # An output function makes it at the end; prose around a prompted one has braces, too.
        return self.mode is not OutputMode.PROMPTED and not self.functions

    def read(self, output: TaskOutput) -> Any:
        """Return the typed value of a recorded output, or a Misfit if the type has changed.

        Without Python types, returns the JSON.
        """
        if not self.types:
            return output.value
        if len(self.types) == 1:
            return self.types[0].read(output.value)
        read, named = None, [each for each in self.types if each.name == output.type_name]
        # A recorded type that is gone may have been renamed: what fits another one is read by it.
        for each in named or self.types:
            read = each.read(output.value)
            if not isinstance(read, Misfit):
                break
        return read

    @cached_property
    def is_text_wrapped(self) -> bool:
        """Whether the text of an answer holds the output as the member `value`."""
        return len(self.variants) > 1 or self.variants[0].is_wrapped

    @cached_property
    def _text_schema(self) -> Json:
        return wrapped(self.schema) if self.is_text_wrapped else self.schema


def _kind_of(card: ModelCard) -> tuple[str | bool, ...]:
    return card.api, card.provider, card.json_schema, card.tools, card.forced_tool_choice


class OutputForm(Struct, frozen=True):
    """How a model gives an output: an agent has one, also for the outputs of its messages."""

    mode: OutputMode = OutputMode.TOOL
    retries: int = OUTPUT_RETRIES


ANY_FORM = OutputForm()


_MODES = tuple(OutputMode)


def read_form(options: Mapping[str, Any]) -> OutputForm:
    """Return the form in the options of an agent. Raises ConfigError if it does not exist."""
    mode = options.get("output_mode", ANY_FORM.mode)
    retries = options.get("output_retries", ANY_FORM.retries)
    if mode not in _MODES:
        raise ConfigError(f"output_mode must be one of {', '.join(OutputMode)}; found {mode!r}")
    if type(retries) is not int or retries < 0:
        raise ConfigError(f"output_retries must be a whole number from 0; found {retries!r}")
    return OutputForm(OutputMode(mode), retries)


def contract_of(output: Any, form: OutputForm = ANY_FORM) -> OutputContract | None:
    """Return the contract of what a program gave as `output`; None for `str`, which is text.

    Raises ConfigError for a type without a schema.
    """
    if output is str:
        return None
    if inspect.isroutine(output) or isinstance(output, FunctionTool):
        return _of_function(output, form)
    members = output_types(output)
    names = _tool_names([each.name for each in members])
    return OutputContract(
        variants=tuple(
            _variant(name, each, is_only=len(members) == 1)
            for name, each in zip(names, members, strict=True)
        ),
        schema=_whole([each.schema for each in members]),
        types=members,
        mode=form.mode,
        retries=form.retries,
    )


def contract_of_schema(schema: Json, form: OutputForm = ANY_FORM) -> OutputContract:
    """Return the contract of a message with a JSON Schema. Raises ValueError for a broken one."""
    is_object = schema.get("type") == "object"
    parameters = schema if is_object else wrapped(schema)
    # Of a client, and so not trusted: its patterns must not cost more than linear time.
    checked = Schema(parameters, is_trusted=False)
    variant = Variant(
        tool_id=FINAL_ANSWER,
        description=_DESCRIPTION,
        parameters=parameters,
        problems=checked.problems,
        is_wrapped=not is_object,
    )
    return OutputContract(variants=(variant,), schema=schema, mode=form.mode, retries=form.retries)


_DESCRIPTION = "Hand in the final answer. This ends your work."


def _variant(tool_id: str, member: OutputType, *, is_only: bool) -> Variant:
    kind = "" if is_only else f" as {member.name}"
    purpose = f" {member.description}" if member.description else ""
    return Variant(
        tool_id=tool_id,
        description=f"Hand in the final answer{kind}. This ends your work.{purpose}",
        parameters=member.parameters,
        problems=member.problems,
        is_wrapped=member.is_wrapped,
        type_name=member.name,
    )


def _of_function(function: Any, form: OutputForm) -> OutputContract:
    if form.mode is not OutputMode.TOOL:
        raise ConfigError("an output function needs output_mode='tool': the model calls it")
    hint = returned(getattr(function, "__wrapped__", function))
    members = () if hint is type(None) else output_types(hint)
    tool = _output_tool(function)
    variant = Variant(
        tool_id=FINAL_ANSWER,
        description=tool.spec.description,
        parameters=tool.spec.parameters,
        problems=lambda _: [],
        function=tool,
    )
    return OutputContract(
        variants=(variant,),
        schema=_whole([each.schema for each in members]) if members else {"type": "null"},
        types=members,
        mode=form.mode,
        retries=form.retries,
    )


def _output_tool(function: Any) -> Tool:
    """Return an output function as the tool `final_answer`, with the options of its `@tool`."""
    if isinstance(function, FunctionTool):
        spec = replace(function.spec, tool_id=FINAL_ANSWER, effect=Effect.WRITE, kind="python")
        return with_spec(function, spec)
    options = Options(id=FINAL_ANSWER, effect="write")
    if not inspect.getdoc(function):
        options["description"] = _DESCRIPTION
    tool: FunctionTool[Any, ..., Any] = FunctionTool(function, **options)
    _ = tool.spec  # raises DeclarationError here, where the agent is made
    return tool


def _whole(schemas: Sequence[Json]) -> Json:
    """Return the schema of a union. Definitions move to the top, where their references point."""
    if len(schemas) == 1:
        return schemas[0]
    found = (schema.get("$defs", {}) for schema in schemas)
    definitions = {name: each for defined in found for name, each in defined.items()}
    members = [{key: each for key, each in schema.items() if key != "$defs"} for schema in schemas]
    return {"anyOf": members, **({"$defs": definitions} if definitions else {})}


def _tool_names(names: Sequence[str]) -> list[str]:
    """Return the tool of each type. Equal names get a number."""
    if len(names) == 1:
        return [FINAL_ANSWER]
    made: list[str] = []
    for name in names:
        number = names[: len(made)].count(name)
        made.append(f"{FINAL_ANSWER}_{name}{number + 1 if number else ''}")
    return made


def _values_in(text: str) -> Iterator[Any]:
    """Yield the JSON of an answer: its fenced blocks, its whole text, and its first object."""
    # Fenced blocks first: prose around them may have braces, and models quote the schema in it.
    for block in _FENCED.findall(text):
        with suppress(ValueError, RecursionError):
            yield parse_json(block)
    with suppress(ValueError, RecursionError):
        yield parse_json(text)
    start = text.find("{")
    if start >= 0:
        with suppress(ValueError, RecursionError):
            yield parse_json_at(text, start)[0]
