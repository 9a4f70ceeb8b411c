"""`ask_user`: one question to the person, and the answer."""

from typing import Any

from penstock.core.call import ASK_USER, Effect
from penstock.core.call_errors import Rejected
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem
from penstock.core.task import Option, QuestionForm, QuestionStatus
from penstock.engine.answers import OTHER
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec

TEXT = {"type": "string", "minLength": 1, "maxLength": 512}
SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["question"],
    "properties": {
        "question": {"type": "string", "minLength": 1, "maxLength": 4096},
        "type": {
            "enum": ["input", "select", "confirm"],
            "description": "The kind of answer: words, a choice from options, or yes or no.",
        },
        "options": {
            "type": "array",
            "maxItems": 50,
            "description": "The choices of a select, each a text.",
            "items": {
                "anyOf": [
                    TEXT,
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["label", "value"],
                        "properties": {
                            "label": TEXT,
                            "value": TEXT,
                            "aliases": {"type": "array", "maxItems": 20, "items": TEXT},
                        },
                    },
                ]
            },
        },
        "multiSelect": {"type": "boolean", "description": "More than one option may be chosen."},
        "allowCustom": {"type": "boolean", "description": "Other words are an answer too."},
        "defaultValue": {"type": "string", "description": "Taken when an input is left empty."},
        "context": {
            "type": "string",
            "maxLength": 8192,
            "description": "What the person should know before answering.",
        },
    },
}
OFFERED: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["question", "type"],
    "properties": {
        "question": {
            **SCHEMA["properties"]["question"],
            "description": "The question, in words that the person understands.",
        },
        "type": SCHEMA["properties"]["type"],
        "options": {
            "type": "array",
            "items": TEXT,
            "minItems": 1,
            "maxItems": 50,
            "description": "The choices. For a select only, which needs them.",
        },
        "multiSelect": {
            "type": "boolean",
            "description": "More than one option may be chosen. For a select only.",
        },
        "allowCustom": {
            "type": "boolean",
            "description": f'Adds the option "{OTHER}": other words are an answer too. '
            "For a select only.",
        },
        "defaultValue": {
            "type": "string",
            "description": "The answer when the person leaves it empty. For an input only.",
        },
    },
}
"""The form with a `type`: its answer is always `{answer}`. The form without one is for scripts."""
MAX_BYTES = {"question": 4_096, "context": 8_192}
MAX_OPTIONS, MAX_TEXT = 20, 512
"""Options of a question without a type, and bytes of a text of one; a select may have more."""
FOLLOW_UP = (
    "The person said something else instead: answer it, then ask again if you still need to."
)
STOP = "The person will not answer. Continue without it, or say what is missing."


class AskUser:
    """Asks a person and waits, without a time limit of its own."""

    spec = ToolSpec(
        tool_id=ASK_USER,
        description=(
            "Ask the person one question and wait for the answer. Use it when only they can know "
            "or decide, not for what another tool can find out. Returns {answer}: the text of an "
            "input, the option of a select (a list with multiSelect), true or false of a confirm."
        ),
        input_schema=SCHEMA,
        offered_schema=OFFERED,
        effect=Effect.NONE,
        is_global=True,
    )

    def preview(self, output: Any) -> str | None:
        """Return the answer."""
        answer = output.get("answer", output.get("value", output.get("user_message")))
        if isinstance(answer, bool):
            return "Answered: yes" if answer else "Answered: no"
        if isinstance(answer, list):
            answer = ", ".join(answer)
        return "Not answered" if answer is None else f"Answered: {answer}"

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the answer. Suspends the task until it exists."""
        _check_sizes(input)
        form = _typed(input) if "type" in input else _plain(input)
        answered = await invocation.ask(input["question"], form=form)
        answer = answered.answer
        is_over = answered.status is QuestionStatus.CANCELLED or bool(answer.get("cancel"))
        if form.typed is not None:
            if is_over:
                raise Rejected("the person did not answer", suggestion=STOP)
            return {"answer": answer["value"]}
        base = {"question_id": answered.question_id}
        if is_over:
            return {"status": "cancelled", **base, "instruction": STOP}
        if "value" in answer:
            return {"status": "answered", **base, "value": answer["value"]}
        if not form.options:
            return {"status": "answered", **base, "value": answer["text"]}
        said = {"user_message": answer["text"], "instruction": FOLLOW_UP}
        return {"status": "follow_up", **base, **said}


def _check_sizes(input: Json) -> None:
    """Raise InvalidInput for a text of too many bytes; the schema counts characters."""
    sizes = {name: _size(input.get(name, "")) for name in MAX_BYTES}
    problems = [
        Problem(f"/{name}", f"has {size} bytes, at most {MAX_BYTES[name]} may be")
        for name, size in sizes.items()
        if size > MAX_BYTES[name]
    ]
    if problems:
        raise invalid(ASK_USER, problems)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _typed(input: Json) -> QuestionForm:
    """Return the form of a question with a type. Fields of other types are ignored."""
    kind = input["type"]
    typed = {"type": kind}
    options: tuple[Option, ...] = ()
    if kind == "input" and "defaultValue" in input:
        typed["defaultValue"] = input["defaultValue"]
    if kind == "select":
        texts = _texts(input)
        is_open = bool(input.get("allowCustom"))
        typed |= {"multiSelect": bool(input.get("multiSelect")), "allowCustom": is_open}
        options = tuple(Option(label=each, value=each) for each in [*texts, *[OTHER] * is_open])
    return QuestionForm(options=options, context=input.get("context"), typed=typed)


def _texts(input: Json) -> list[str]:
    texts = [each if isinstance(each, str) else each["value"] for each in input.get("options", ())]
    if not texts:
        raise invalid(ASK_USER, [Problem("/options", "a select needs at least one option")])
    if len(set(texts)) < len(texts):
        raise invalid(ASK_USER, [Problem("/options", "options must be unique")])
    return texts


def _plain(input: Json) -> QuestionForm:
    options = tuple(_option(each) for each in input.get("options", ()))
    if len(options) > MAX_OPTIONS:
        problem = f"are {len(options)}, at most {MAX_OPTIONS} may be"
        raise invalid(ASK_USER, [Problem("/options", problem)])
    spellings = [text for each in options for text in {*map(_spelling, _words(each))}]
    if len(set(spellings)) < len(spellings):
        problem = "labels, values and aliases must be unique, ignoring case and spaces"
        raise invalid(ASK_USER, [Problem("/options", problem)])
    if any(_size(text) > MAX_TEXT for each in options for text in _words(each)):
        problem = f"a text of an option has at most {MAX_TEXT} bytes"
        raise invalid(ASK_USER, [Problem("/options", problem)])
    return QuestionForm(options=options, context=input.get("context"))


def _option(option: Any) -> Option:
    if isinstance(option, str):
        return Option(label=option, value=option)
    return Option(
        label=option["label"], value=option["value"], aliases=tuple(option.get("aliases", ()))
    )


def _words(option: Option) -> tuple[str, ...]:
    """Return the texts that select an option."""
    return (option.label, option.value, *option.aliases)


def _spelling(text: str) -> str:
    return text.strip().casefold()


TOOLS = (AskUser(),)
