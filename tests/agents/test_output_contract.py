"""What a task must hand in: tools, formats and texts for each mode; which answers are accepted."""

from typing import Any, Literal

import pytest
from msgspec.structs import replace
from pydantic import BaseModel

from penstock.agents.agent import Agent
from penstock.agents.output_contract import (
    OutputContract,
    OutputForm,
    OutputMode,
    contract_of,
    contract_of_schema,
)
from penstock.core.call import Effect
from penstock.core.errors import ConfigError, DeclarationError
from penstock.core.task import TaskOutput
from penstock.models.model import ModelCard
from penstock.models.scripted import SCRIPTED
from penstock.tools.python.function import tool
from penstock.tools.python.signature import Misfit

JSON_CARD = replace(SCRIPTED, json_schema=True)
WORDS_CARD = replace(SCRIPTED, tools=False)
BOTH_CARD = replace(WORDS_CARD, json_schema=True)


class Ticket(BaseModel):
    """A report of a fault."""

    title: str
    severity: Literal["low", "high"]


class Spam(BaseModel):
    """No report."""

    reason: str


LOW = {"title": "a", "severity": "low"}


def made(output: Any, mode: str = "tool") -> OutputContract:
    contract = contract_of(output, OutputForm(OutputMode(mode)))
    assert contract is not None
    return contract


def test_text_needs_no_contract() -> None:
    assert contract_of(str) is None
    assert Agent("a").contract is None


@pytest.mark.parametrize(
    ("output", "tools"),
    [
        (Ticket, ["final_answer"]),
        (int, ["final_answer"]),
        (Ticket | Spam, ["final_answer_Ticket", "final_answer_Spam"]),
        (Ticket | None, ["final_answer_Ticket", "final_answer_None"]),
        (list[int] | list[str], ["final_answer_list", "final_answer_list2"]),
    ],
)
def test_each_type_of_a_union_has_a_tool(output: Any, tools: list[str]) -> None:
    contract = made(output)
    assert [each.name for each in contract.definitions] == tools
    assert contract.tool_ids == {*tools}


def test_the_description_of_a_tool_contains_the_docstring_of_its_type() -> None:
    one, two = made(Ticket | Spam).definitions
    assert one.description == (
        "Hand in the final answer as Ticket. This ends your work. A report of a fault."
    )
    assert two.description == "Hand in the final answer as Spam. This ends your work. No report."
    assert one.parameters["properties"]["severity"] == {"enum": ["low", "high"], "type": "string"}


MODES: list[tuple[str, ModelCard, OutputMode]] = [
    ("tool", SCRIPTED, OutputMode.TOOL),
    ("tool", JSON_CARD, OutputMode.TOOL),
    ("tool", WORDS_CARD, OutputMode.PROMPTED),
    ("native", JSON_CARD, OutputMode.NATIVE),
    ("native", BOTH_CARD, OutputMode.NATIVE),
    ("native", SCRIPTED, OutputMode.TOOL),
    ("native", WORDS_CARD, OutputMode.PROMPTED),
    ("prompted", JSON_CARD, OutputMode.PROMPTED),
]


@pytest.mark.parametrize(("mode", "card", "chosen"), MODES)
def test_a_model_that_lacks_a_mode_gets_the_next_one(
    mode: str, card: ModelCard, chosen: OutputMode
) -> None:
    contract = made(Ticket, mode).for_model(card)
    assert contract.mode is chosen
    assert bool(contract.definitions) is (chosen is OutputMode.TOOL)
    assert bool(contract.format) is (chosen is OutputMode.NATIVE)
    assert ('"severity"' in contract.instructions) is (chosen is OutputMode.PROMPTED)


def test_the_format_is_the_schema_as_the_provider_enforces_it() -> None:
    union = made(Ticket | Spam, "native").for_model(JSON_CARD).format
    assert union
    assert union.name == "output"
    assert union.schema["type"] == "object"
    assert len(union.schema["properties"]["value"]["anyOf"]) == 2
    one = made(Ticket, "native").for_model(JSON_CARD).format
    assert one
    assert (one.name, one.schema["required"]) == ("Ticket", ["title", "severity"])


def test_a_schema_that_the_provider_cannot_enforce_becomes_a_tool() -> None:
    contract = made(dict[str, int], "native").for_model(JSON_CARD)
    assert contract.mode is OutputMode.TOOL
    assert contract.format is None


def test_nulls_that_a_provider_requires_for_absent_properties_are_dropped() -> None:
    class Found(BaseModel):
        name: str
        count: int = 3
        note: str | None = "none"

    contract = made(Found, "native").for_model(JSON_CARD)
    assert contract.format
    assert contract.format.schema["required"] == ["name", "count", "note"]
    judged = contract.judge_text('{"name":"a","count":null,"note":null}')
    assert judged == TaskOutput(value={"name": "a", "note": None}, type_name="Found")


def test_a_schema_that_is_too_deep_for_a_format_is_sent_as_a_tool() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    form = OutputForm(OutputMode.NATIVE)
    contract = contract_of_schema(schema, form).for_model(JSON_CARD)
    assert (contract.mode, contract.format) == (OutputMode.TOOL, None)


def test_the_definitions_of_a_union_are_at_the_top_of_its_schema() -> None:
    class Node(BaseModel):
        children: "list[Node]"

    Node.model_rebuild(_types_namespace={"Node": Node})
    contract = made(Node | list[Node], "prompted")
    assert set(contract.schema["$defs"]) == {"Node"}
    judged = contract.judge_text('{"value": [{"children": []}]}')
    assert judged == TaskOutput(value=[{"children": []}], type_name="list")


TEXTS: list[tuple[Any, str, Any]] = [
    (Ticket, '{"title":"a","severity":"low"}', LOW),
    (Ticket, 'Here:\n```json\n{"title":"a","severity":"low"}\n```\nDone.', LOW),
    (Ticket, 'I think {"title":"a","severity":"low"} fits. {"title":"b"}', LOW),
    (Ticket, '```\n{"broken\n```\n```\n{"title":"a","severity":"low"}\n```', LOW),
    (int, '{"value": 3}', 3),
    (int, "3", 3),
    (list[int], "```json\n[1, 2]\n```", [1, 2]),
    (Ticket | Spam, '{"value": {"reason": "ad"}}', {"reason": "ad"}),
    (Ticket | Spam, '{"reason": "ad"}', {"reason": "ad"}),
    (Ticket | None, '{"value": null}', None),
]


@pytest.mark.parametrize(("output", "text", "value"), TEXTS)
def test_the_json_in_a_text_is_found(output: Any, text: str, value: Any) -> None:
    judged = made(output, "prompted").judge_text(text)
    assert isinstance(judged, TaskOutput), judged
    assert judged.value == value


BROKEN: list[tuple[Any, str, str]] = [
    (Ticket, "", "/: the answer has no JSON in it"),
    (Ticket, "I cannot say.", "/: the answer has no JSON in it"),
    (Ticket, '{"title": ', "/: the answer has no JSON in it"),
    (Ticket, "[" * 100_000, "/: the answer has no JSON in it"),
    (Ticket, "```json" + "\n" * 100_000, "/: the answer has no JSON in it"),
    (Ticket, "[1]", "/: is not an object"),
    (Ticket, '{"title":"a"}', "/severity: is required"),
    (int, '{"value": "3"}', '/value: "3" is not of type "integer"'),
    (Ticket | Spam, '{"value": 3}', "/: is not an object"),
]


@pytest.mark.parametrize(("output", "text", "problem"), BROKEN)
def test_a_text_without_the_output_has_a_problem(output: Any, text: str, problem: str) -> None:
    judged = made(output, "prompted").judge_text(text)
    assert isinstance(judged, list)
    assert str(judged[0]) == problem


@pytest.mark.parametrize(
    ("output", "mode", "streams"),
    [(Ticket, "tool", True), (Ticket, "native", True), (Ticket, "prompted", False)],
)
def test_which_outputs_stream(output: Any, mode: str, *, streams: bool) -> None:
    assert made(output, mode).streams is streams
    assert made(book).streams is False


def test_a_recorded_output_is_read_as_the_type_that_the_model_chose() -> None:
    class Left(BaseModel):
        x: int

    class Right(BaseModel):
        x: int

    contract = made(Left | Right)
    assert contract.read(TaskOutput(value={"x": 1}, type_name="Right")) == Right(x=1)
    assert contract.read(TaskOutput(value={"x": 1}, type_name="Left")) == Left(x=1)
    assert contract.read(TaskOutput(value={"x": 1}, type_name="Renamed")) == Left(x=1)


def test_a_recorded_output_that_fits_no_more_is_a_misfit() -> None:
    class Changed(BaseModel):
        title: str
        severity: int

    read = made(Changed).read(TaskOutput(value=LOW, type_name="Ticket"))
    assert isinstance(read, Misfit)
    assert [each.path for each in read.problems] == ["/severity"]


def book(title: str, *, days: int = 1) -> Ticket:
    """Book a repair.

    Args:
        title: What is broken.
        days: How long it takes.
    """
    return Ticket(title=f"{title} {days}", severity="low")


def test_an_output_function_is_a_tool_that_writes() -> None:
    contract = made(book)
    (function,) = contract.functions
    assert function.spec.tool_id == "final_answer"
    assert function.spec.effect is Effect.WRITE
    (definition,) = contract.definitions
    assert definition.description == "Book a repair."
    assert definition.parameters["properties"]["title"]["description"] == "What is broken."
    assert contract.schema == made(Ticket).schema
    assert contract.read(TaskOutput(value=LOW)) == Ticket(title="a", severity="low")


def test_a_function_with_a_decorator_keeps_its_options() -> None:
    decorated = tool(effect="read", id="other", timeout=5, requires_approval=True)(book)
    (function,) = made(decorated).functions
    spec = function.spec
    assert (spec.tool_id, spec.effect, spec.timeout_ms) == ("final_answer", Effect.WRITE, 5000)
    assert spec.requires_approval is True


def test_a_function_that_returns_nothing_has_the_output_null() -> None:
    def stop(reason: str) -> None:
        """Stop."""

    contract = made(stop)
    assert contract.schema == {"type": "null"}
    assert contract.read(TaskOutput(value=None)) is None


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"output": Ticket, "output_mode": "json"}, ConfigError, "output_mode must be one of tool, "),
    ({"output": Ticket, "output_retries": -1}, ConfigError, "must be a whole number from 0"),
    ({"output": Ticket, "output_retries": True}, ConfigError, "must be a whole number from 0"),
    ({"output": [Ticket, Spam]}, ConfigError, r"write Ticket \| Spam"),
    ({"output": book, "output_mode": "native"}, ConfigError, "needs output_mode='tool'"),
    ({"output": lambda title: title}, ConfigError, r"write `def make\(...\) -> Ticket:`"),
    ({"output": len}, ConfigError, "has no hint for what it returns"),
    ({"output": Agent("b")}, ConfigError, "takes a type or a function, found <agent 'b'>"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_an_agent_with_an_impossible_output_is_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Agent("a", **options)


def test_a_parameter_of_an_output_function_needs_a_hint() -> None:
    def untyped(title) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
        return len(title)

    with pytest.raises(DeclarationError, match="the parameter 'title' has no type hint"):
        Agent("a", output=untyped)


def test_a_model_without_tools_cannot_call_an_output_function() -> None:
    with pytest.raises(ConfigError, match="calls no tools, so it cannot call an output function"):
        made(book).for_model(WORDS_CARD)


def test_a_schema_of_a_message_is_wrapped_unless_it_is_an_object() -> None:
    plain = contract_of_schema({"type": "array", "items": {"type": "integer"}})
    (variant,) = plain.variants
    assert variant.parameters["properties"]["value"]["items"] == {"type": "integer"}
    assert variant.problems({"value": [1]}) == []
    assert variant.output({"value": [1]}) == TaskOutput(value=[1])
    assert plain.read(TaskOutput(value=[1])) == [1]
    whole = contract_of_schema({"type": "object", "required": ["a"]})
    assert whole.variants[0].problems({"a": 1}) == []
    assert whole.variants[0].output({"a": 1}) == TaskOutput(value={"a": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nothing"},
        {"$ref": "https://example.com/schema.json"},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "string", "pattern": r"(?=a)b"},
        {"type": "string", "pattern": "("},
    ],
)
def test_a_broken_or_remote_schema_of_a_message_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        contract_of_schema(schema)
