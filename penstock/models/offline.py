"""The offline model: a handful of rules that call tools, without a key or a network."""

import json
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from msgspec import Struct

from penstock.core.call import FINISH
from penstock.core.clock import Clock, SystemClock
from penstock.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelCard,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolDefinition,
    estimate,
    of_people,
)
from penstock.models.offline_arguments import FilledArguments, describe, fill
from penstock.models.offline_choice import (
    ToolMention,
    asks_for_any,
    asks_for_list,
    best_match,
    harmless_without_input,
    mentioned,
    own_first,
)
from penstock.models.offline_report import report
from penstock.models.offline_steps import ANSWER, answer_calls, step_calls

OFFLINE = ModelCard(model_id="offline", name="offline", provider="offline")
NOTICE = "I am the offline model: a handful of rules, not a language model."
CONFIGURE = "For real answers, name a model in penstock.toml under [models]."
MAX_TOOLS = 20
READ_CHARS = 4000
"""Characters of a message that the rules read."""

_ASKED = "I cannot call `"
_WORDS = re.compile(r"\s*\S+\s?|\s+")


class RuleReply(Struct, frozen=True):
    """The reply that a rule makes."""

    thought: str
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


class OfflineModel:
    """Calls the tools that a message names or describes, and reports their results.

    The same conversation always gets the same reply. `seconds_per_word` makes it stream as slowly
    as a real model.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        card: ModelCard = OFFLINE,
        seconds_per_word: float = 0,
    ) -> None:
        self.card = card
        self._clock = clock or SystemClock()
        self._pause = seconds_per_word

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the reply word by word, then its calls."""
        answer = decide(request)
        for word in _WORDS.findall(answer.thought):
            yield ReasoningDelta(word)
            await self._clock.sleep(self._pause)
        for word in _WORDS.findall(answer.text):
            yield TextDelta(word)
            await self._clock.sleep(self._pause)
        chars = len(answer.thought) + len(answer.text)
        for index, (name, arguments) in enumerate(answer.calls):
            text = json.dumps(arguments, ensure_ascii=False)
            chars += len(name) + len(text)
            yield CallDelta(index, name)
            yield CallDelta(index, "", text)
        reason = "tool_calls" if answer.calls else "stop"
        yield Finished(reason, estimate(self.card, request, chars))

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def decide(request: ModelRequest) -> RuleReply:
    """Return the reply to a request, made by the first rule that applies."""
    place, results = _turn(of_people(request))
    finish = next((tool for tool in request.tools if tool.name == FINISH), None)
    if finish is not None:
        return RuleReply(f"{NOTICE} {CONFIGURE}", "", step_calls(request, finish))
    if any(tool.name.startswith(ANSWER) for tool in request.tools):
        asked = _asked(request.messages, place, request.tools)
        return RuleReply(NOTICE, "", answer_calls(asked, results, request.tools))
    if request.closing or results:
        return _report(results, request)
    return _start(_asked(request.messages, place, request.tools), request.tools)


def _turn(messages: Sequence[Message]) -> tuple[int, list[ToolMessage]]:
    """Return the index of the last user message, and the results of tools since then."""
    results: list[ToolMessage] = []
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage):
            return index, results[::-1]
        if isinstance(message, ToolMessage):
            results.append(message)
    return -1, results[::-1]


def _asked(messages: Sequence[Message], place: int, tools: Sequence[ToolDefinition]) -> str:
    """Return the question; with the earlier one before it if it only adds what we asked for."""
    if place < 0:
        return ""
    asked = messages[place].content[:READ_CHARS]
    if place < len(("question", "answer")) or mentioned(asked, tools) or asks_for_list(asked):
        return asked
    earlier, said = messages[place - 2], messages[place - 1]
    if isinstance(earlier, UserMessage) and said.content.startswith(_ASKED):
        return f"{earlier.content[:READ_CHARS]}\n{asked}"
    return asked


def _start(asked: str, tools: Sequence[ToolDefinition]) -> RuleReply:
    named = mentioned(asked, tools)
    if named:
        return _call(named)
    if asks_for_list(asked):
        return _introduce(tools)
    if (match := best_match(asked, tools)) is not None:
        return _call([match])
    if asks_for_any(asked):
        return _introduce(tools)
    thought = "No tool is named, and no description fits."
    return RuleReply(thought, f"{NOTICE} {CONFIGURE}\n\n{_listed(tools)}{_example(tools)}")


def _call(mentions: Sequence[ToolMention]) -> RuleReply:
    filled = [(each.tool, fill(each.text, each.tool.parameters, each.before)) for each in mentions]
    open_ones = [(tool, each) for tool, each in filled if each.missing or each.wrong]
    names = ", ".join(tool.name for tool, _ in filled)
    how = "names" if mentions[0].named else "matches the description of"
    if open_ones:
        questions = "\n\n".join(_question(tool, each) for tool, each in open_ones)
        return RuleReply(f"The message {how} {names}, but not all of its input.", questions)
    calls = tuple((tool.name, each.arguments) for tool, each in filled)
    return RuleReply(f"The message {how} {names}. Calling it.", "", calls)


def _question(tool: ToolDefinition, filled: FilledArguments) -> str:
    properties = tool.parameters.get("properties") or {}
    wanted = [describe(name, properties.get(name)) for name in filled.missing]
    problems = ([f"I need {', '.join(wanted)}"] if wanted else []) + filled.wrong
    names = [*filled.missing, *(wrong.split("`")[1] for wrong in filled.wrong)]
    example = " ".join(f"{name}=…" for name in names)
    return f"{_ASKED}{tool.name}` yet: {'; '.join(problems)}. Write, for example: {example}"


def _introduce(tools: Sequence[ToolDefinition]) -> RuleReply:
    text = f"{NOTICE} {_listed(tools)}"
    tool = harmless_without_input(tools)
    if tool is None:
        return RuleReply("I list the tools.", text + _example(tools))
    return RuleReply(
        f"I list the tools and try {tool.name}, which needs no input.",
        f"{text}\n\nI try `{tool.name}`, which needs no input.\n\n",
        ((tool.name, {}),),
    )


def _report(results: Sequence[ToolMessage], request: ModelRequest) -> RuleReply:
    is_known = any(
        NOTICE in message.content
        for message in request.messages
        if isinstance(message, AssistantMessage)
    )
    notice = "" if is_known else f"\n\n({NOTICE})"
    if not results:
        return RuleReply("No tool may be called now.", f"I have no results to report.{notice}")
    return RuleReply("Reporting the result.", f"{report(results)}{notice}")


def _listed(tools: Sequence[ToolDefinition]) -> str:
    if not tools:
        return "No tools are offered here."
    shown = [tool for tool in tools if not tool.is_builtin] or tools
    lines = [f"- `{tool.name}`: {_sentence(tool.description)}" for tool in shown[:MAX_TOOLS]]
    if len(shown) > MAX_TOOLS:
        lines.append(f"- … and {len(shown) - MAX_TOOLS} more")
    if len(shown) < len(tools):
        lines.append(f"- … and {len(tools) - len(shown)} that are built in")
    return "I can call these tools when you name them:\n\n" + "\n".join(lines)


def _sentence(description: str) -> str:
    return re.split(r"(?<=[.!?])\s|\n", description.strip(), maxsplit=1)[0]


def _example(tools: Sequence[ToolDefinition]) -> str:
    if not tools:
        return ""
    tool = own_first(tools)[0]
    names = " ".join(f"{name}=…" for name in tool.parameters.get("required") or ())
    return f"\n\nWrite, for example: {tool.name} {names}".rstrip()
