"""The offline model as the agent of a flow step, and of a chat with a typed output.

It calls the tools that its task names or describes, if the task has all arguments that they need,
and finishes with their results. Otherwise it finishes with an invented result that repeats the
task and has a value for each declared output.

People and later steps read the result, so it contains no name of a tool: a model that found one in
its task would take it for an order. Shown by tests/models/test_offline_steps.py.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock.core.call import ASK_USER, FINISH, SKILL_READ
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Schema
from penstock.core.messages import Message, ToolMessage, UserMessage
from penstock.core.text import cut, one_line
from penstock.models.model import ModelRequest, ToolDefinition
from penstock.models.offline_arguments import fill
from penstock.models.offline_choice import (
    ToolMention,
    best_match,
    has_side_effects,
    is_spelled,
    mentioned,
)
from penstock.models.offline_report import found_values, values_in
from penstock.models.pattern_text import matches, text_for

ANSWER = "final_answer"
"""How the tools begin by which a model hands in a typed output."""
MADE_UP = "The offline model made this up for:"
NO_NAME = "the tool"
SUMMARY_CHARS, SUBJECT_CHARS = 300, 80
_TASK = re.compile(r"\ATask:\s*")
_PARTS = re.compile(r"\n\n(?:## Inputs\n|Output file: )")
_ROUND = re.compile(r"This is iteration (\d+) of (\d+)\.")
_OWN_WORDS = re.compile(r"A person answered in words of their own:\n(.*)", re.DOTALL)
_OPTIONS_LINE = re.compile(r"^Options: .*$", re.MULTILINE)
_BACK = re.compile(
    r"again|back|bad|change|chang|fail|fix|loop|mend|more|no|not|redo|reject|repeat|retry|rework|"
    r"revis\w*|rewrite|wrong",
    re.IGNORECASE,
)
"""Names of options that usually lead back. A run that always took one would never end."""
_CONTEXT_TOOLS = frozenset({ASK_USER, SKILL_READ})
"""Tools that every agent has. Called only if the task spells their names."""
_VALUES: Mapping[str, Any] = {"number": 1, "boolean": True, "array": ["example"]}
_LIKELY = (
    "2026-01-31",
    "ann@example.com",
    "https://example.com/",
    "1.0.0",
    "192.0.2.1",
    "Example-1",
)
"""Texts that often match the patterns of outputs."""
_BY_NAME = (
    (re.compile(r"ur[il]$|link|href", re.IGNORECASE), "https://example.com/"),
    (re.compile(r"mail", re.IGNORECASE), "ann@example.com"),
    (re.compile(r"date|(?<![a-z])day(?![a-z])", re.IGNORECASE), "2026-01-31"),
)
_SENTENCE = re.compile(r"(?<=[.!?])\s")

Call = tuple[str, dict[str, Any]]


def step_calls(request: ModelRequest, finish: ToolDefinition) -> tuple[Call, ...]:
    """Return the next calls of a step's agent: first the tools for its task, then `finish`."""
    task, results = _task_of(request.messages), _results(request.messages)
    tools = [tool for tool in request.tools if tool.name != FINISH]
    if not results and not request.closing and (calls := _calls_for(task, tools)):
        return calls
    return ((finish.name, _result(task, results, finish.parameters, tools)),)


def answer_calls(
    asked: str, results: Sequence[ToolMessage], tools: Sequence[ToolDefinition]
) -> tuple[Call, ...]:
    """Return the next calls of a chat with a typed output: tools that it names, then the output.

    The output has what the message says; what is missing comes from results or is invented.
    """
    answer = next(tool for tool in tools if tool.name.startswith(ANSWER))
    named = mentioned(asked, [tool for tool in tools if not tool.name.startswith(ANSWER)])
    if not results and (calls := tuple(_complete(named, ""))):
        return calls
    filled = fill(asked, answer.parameters).arguments
    from_tools, text = found_values(results), values_in(results) or one_line(asked)
    for name, schema in (answer.parameters.get("properties") or {}).items():
        if name not in filled and isinstance(schema, dict):
            filled[name] = _value(name, schema, from_tools, text)
    return ((answer.name, filled),)


def _task_of(messages: Sequence[Message]) -> str:
    """Return the text of the task. It is in the first message; reminders come later."""
    first = next((each for each in messages if isinstance(each, UserMessage)), None)
    return "" if first is None else _TASK.sub("", first.content)


def _results(messages: Sequence[Message]) -> list[ToolMessage]:
    tools = (each for each in messages if isinstance(each, ToolMessage))
    return [each for each in tools if each.name != FINISH]


def _calls_for(task: str, tools: Sequence[ToolDefinition]) -> tuple[Call, ...]:
    """Return the calls of tools that the task means and has all arguments for."""
    own = [tool for tool in tools if tool.name not in _CONTEXT_TOOLS]
    text = _PARTS.split(task, maxsplit=1)[0]
    spelled = [tool for tool in tools if tool in own or is_spelled(tool.name, text)]
    named = mentioned(text, spelled)
    rest = task[len(text) :]
    calls = list(_complete(named, rest))
    if named:
        return tuple(calls)
    if (match := best_match(text, own)) is None and len(own) == 1 and _is_obvious(own[0]):
        match = ToolMention(own[0], text, named=False)
    return tuple(_complete([match], rest)) if match is not None else ()


def _complete(mentions: Iterable[ToolMention], inputs: str) -> Iterator[Call]:
    """Yield a call for each tool whose arguments are complete and valid. No person can be asked."""
    for mention in mentions:
        tool = mention.tool
        filled = fill(f"{mention.text}{inputs}", tool.parameters, mention.before)
        is_complete = not (filled.missing or filled.wrong)
        if is_complete and _fits(tool.parameters, filled.arguments):
            yield tool.name, filled.arguments


def _is_obvious(tool: ToolDefinition) -> bool:
    """Whether an agent that has only this tool should call it: it needs input and is harmless."""
    needs = tool.parameters.get("required") or ()
    return bool(needs) and not (tool.is_builtin or has_side_effects(tool))


def _result(
    task: str, results: Sequence[ToolMessage], parameters: Json, tools: Sequence[ToolDefinition]
) -> dict[str, Any]:
    """Return the arguments of `finish`, with a value for each declared output."""
    properties: Mapping[str, Any] = parameters.get("properties") or {}
    from_tools, subject = found_values(results), _subject(task)
    answer = _without_names(values_in(results), tools)
    branch = _branch(properties["branch"], task) if "branch" in properties else None
    has_failed = bool(results) and not any(each.ok for each in results) and branch is None
    made_up = f"{MADE_UP} {subject}" if branch is None else f"I choose {_shown(branch)}."
    arguments: dict[str, Any] = {
        "status": "error" if has_failed else "complete",
        "summary": answer or made_up,
        "files": [],
    }
    if branch is not None:
        arguments["branch"] = branch
    about = cut(_SENTENCE.split(subject, maxsplit=1)[0], SUBJECT_CHARS).rstrip(".!?")
    for name, schema in properties.items():
        if name not in arguments and name != "artifacts" and isinstance(schema, dict):
            text = answer or f"{name} of “{about}”"
            arguments[name] = _value(name, schema, from_tools, text)
    return arguments


def _subject(task: str) -> str:
    """Return the beginning of the task in one line, without markers of this model and of loops."""
    text = one_line(_PARTS.split(task, maxsplit=1)[0]).replace(f"{MADE_UP} ", "")
    return cut(_ROUND.sub("", text).strip(), SUMMARY_CHARS - len(MADE_UP) - 1)


def _value(name: str, schema: Json, from_tools: Mapping[str, Any], text: str) -> Any:
    """Return a value that fits the schema: of a tool's result by this name, or an invented one."""
    if "enum" in schema:
        return schema["enum"][0]
    if name in from_tools and _fits(schema, from_tools[name]):
        return from_tools[name]
    if schema.get("type", "string") != "string":
        return _VALUES.get(str(schema["type"]), {"example": text})
    likely = next((value for names, value in _BY_NAME if names.search(name)), text)
    pattern = schema.get("pattern")
    if pattern is None:
        return likely
    fitting = (each for each in (text, likely, *_LIKELY) if matches(pattern, each))
    return next(fitting, None) or text_for(pattern) or text


def _fits(schema: Json, value: Any) -> bool:
    try:
        return not Schema(schema).problems(value)
    except ValueError:
        return False


def _branch(schema: Json, task: str) -> Any:
    """Return the chosen branch: one that the person or the task names, or one that leads on."""
    if "enum" not in schema:
        options = (schema.get("items") or {}).get("enum") or ()
        return [_option(options, task)] if options else []
    return _option(schema["enum"], task)


def _option(options: Sequence[Any], task: str) -> Any:
    if (round_ := _ROUND.search(task)) is not None and {"loop", "exit"} <= {*options}:
        now, most = map(int, round_.groups())
        return "loop" if now == 1 < most else "exit"
    own_words = _OWN_WORDS.search(task)
    text = _OPTIONS_LINE.sub("", task) if own_words is None else own_words[1]
    onward = [option for option in options if not _BACK.fullmatch(str(option))] or options
    # A person may choose to go back; on its own this model only goes forward.
    candidates = onward if own_words is None else options
    named = [option for option in candidates if is_spelled(str(option), text)]
    return named[0] if len(named) == 1 else onward[0]


def _shown(branch: Any) -> str:
    return ", ".join(branch) if isinstance(branch, list) else str(branch)


def _without_names(text: str, tools: Sequence[ToolDefinition]) -> str:
    """Replace names of tools. A name of letters only may be a plain word, and stays."""
    names = [tool.name for tool in tools if not tool.name.isalpha()]
    for name in names:
        text = re.sub(rf"`?(?<![\w-]){re.escape(name)}(?![\w-])`?", NO_NAME, text)
    return text
