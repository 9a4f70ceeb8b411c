"""Options of an agent: their check, the choice of its history, and the hash of its definition.

Proof: tests/agents/definition/test_options.py.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.json import encode

from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.events.events import NoteEmitted
from penstock.core.foreign_code import name_of
from penstock.core.late import late
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import AGENT_CHANGED, TaskState
from penstock.models.model import Model
from penstock.models.settings import NOTHING_SET, ModelSettings
from penstock.tools.python.given_tools import name_of_toolset
from penstock.tools.spec import ToolSpec


def place_above(frames: int) -> str:
    """Return the file and the line of the code that many frames above the caller."""
    frame = inspect.currentframe()
    for _ in range(frames + 1):
        frame = frame and frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "unknown code"


OF_OTHERS = {
    "output_type": "output",
    "result_type": "output",
    "system_prompt": "instructions",
    "prompt": "instructions",
    "toolsets": "tools",
    "capabilities": "hooks",
    "input_guardrails": "hooks",
    "output_guardrails": "hooks",
    "guardrails": "hooks",
}
"""Arguments of other frameworks, and ours."""
_NO_MODELS = (int, float, list, tuple, dict, type)


def check_options(given: Mapping[str, Any], known: Iterable[str], settings: type) -> None:
    """Raise TypeError for the first argument that `Agent` does not have or accept."""
    if "settings" in given:
        check: Callable[..., None] = late("penstock.agents.agent_settings:check_settings")
        check(given["settings"], settings)
    for option in given:
        if option not in known:
            meant = OF_OTHERS.get(option)
            all_known = [*known, "output", "handoffs"]
            hint = f" Write {meant!r}." if meant else did_you_mean(option, all_known)
            raise TypeError(f"Agent has no argument {option!r}.{hint}")
    if not isinstance(chosen := given.get("model_settings", NOTHING_SET), ModelSettings):
        raise TypeError(
            "model_settings= takes ModelSettings, such as ModelSettings(temperature=0.2), "
            f"found {chosen!r}"
        )
    model = given.get("model")
    if isinstance(model, _NO_MODELS):
        raise TypeError(
            "model= takes a name such as 'openai:gpt-5', Fallback('a', 'b'), or an instance of "
            f"your own model class, found {model!r}"
        )
    if not isinstance(description := given.get("description", ""), str):
        raise TypeError(
            f"description= takes a text that says when to ask the agent, found {description!r}"
        )


class HistoryChoice(Struct, frozen=True):
    """How the conversations of an agent stay within the window of its model."""

    summarises: bool = False
    """Whether a summary replaces the oldest messages; else they are left out."""
    model: str | Model | None = None
    """The model that writes summaries; None means the agent's."""


HISTORIES = ("trim", "summarise")


def read_history(options: Mapping[str, Any]) -> HistoryChoice:
    """Return the choice in the options of an agent. Raises ConfigError for an unknown way."""
    given = options.get("history", HISTORIES[0])
    if given not in HISTORIES:
        raise ConfigError(f"history must be {' or '.join(HISTORIES)}; found {given!r}")
    return HistoryChoice(given == HISTORIES[1], options.get("summary_model"))


DIGEST = 16
"""Characters of the hash of a definition in the log."""


def digest_of(agent: Any) -> str:
    """Return the hash of what a program says about an agent; of its functions, the names."""
    parts = agent.instruction_parts.parts if agent.instruction_parts else [agent.instructions]
    tools = [tool.spec for tool in agent.tools or ()]
    model = agent.model
    said = [
        [part if isinstance(part, str) else name_of(part) for part in parts],
        model if model is None or isinstance(model, str) else model.card.model_id,
        [[each.tool_id, each.description, each.input_schema, each.effect] for each in tools],
        None if agent.tools is None else list(agent.tool_ids),
        [name_of_toolset(each) for each in agent.toolsets],
        None if agent.contract is None else agent.contract.schema,
        list(agent.transfers),
        to_builtins(agent.settings),
        to_builtins(agent.model_settings),
    ]
    return sha256(encode(said, order="deterministic")).hexdigest()


def definition_of(agent: Any, tools: Iterable[ToolSpec]) -> Json:
    """Return what an agent is, for people: of its functions, the names. `tools` are offered."""
    parts = agent.instruction_parts.parts if agent.instruction_parts else [agent.instructions]
    model = agent.model
    return {
        "instructions": [part if isinstance(part, str) else name_of(part) for part in parts],
        "model": model if model is None or isinstance(model, str) else model.card.model_id,
        "output": None if agent.contract is None else agent.contract.schema,
        "handoffs": list(agent.transfers),
        "settings": to_builtins(agent.settings),
        "model_settings": to_builtins(agent.model_settings),
        "tools": {
            each.tool_id: {"description": each.description, "input_schema": dict(each.input_schema)}
            for each in tools
        },
    }


def note_change(held: HeldLog, task: TaskState, agent: Any) -> None:
    """Note in the log that a task continues with another definition of its agent, if it does.

    Once for each change: the fold of the note is what the next process compares with.
    """
    now, newest = agent.profile.content_hash[:DIGEST], task.agent_digest
    before = task.started.agent_digest if task.started else ""
    # Of a hand-off, HandedOff has the digest; those of earlier versions have none.
    if not (before and now) or newest == now:
        return
    message = f"the agent {agent.name!r} was changed since the task started: {before} is now {now}"
    if before == now:
        message = f"the agent {agent.name!r} is again as it was when the task started: {now}"
    payload = {"agent": agent.name, "started_with": before, "continues_with": now}
    note = NoteEmitted(event_type=AGENT_CHANGED, message=message, payload=payload)
    held.add(note, task.task_id)
