"""Instructions of an agent: texts, and functions that return some.

Functions run at the start of a conversation, or of each task; their texts are recorded, so that a
restart sends the same system prompt and a provider's cache still fits. Proof:
tests/agents/definition/test_instructions.py.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from types import CodeType
from typing import Any, Literal, Protocol, TypeAlias, get_args

from msgspec import Struct
from typing_extensions import TypeVar

from penstock.core.errors import ConfigError, PromptNotResolved
from penstock.core.events.events import PromptResolved
from penstock.core.foreign_code import CaughtError, name_of, takes
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import TaskState
from penstock.resources.dependencies import (
    MISSING,
    NO_DEPS,
    AgentContext,
    Dependencies,
    Hold,
    TaskScope,
)
from penstock.tools.python.needs import needs_of

D = TypeVar("D")


class PlainFunction(Protocol):
    """A function as Python makes it.

    Not `Callable`: a tool is callable too, and checkers would lose the dependencies that it needs.
    """

    @property
    def __code__(self) -> CodeType:
        """The code of the function."""
        ...

    @property
    def __call__(self) -> Callable[..., Any]:
        """Call the function."""
        ...


Instructions: TypeAlias = (
    str | Callable[[AgentContext[D]], str] | Callable[[AgentContext[D]], Awaitable[str]]
)
"""Text of the system prompt, or a function that returns some."""
Every = Literal["conversation", "task"]
"""How often functions among the instructions run."""
EACH: tuple[Every, ...] = get_args(Every)


class InstructionParts(Struct, frozen=True):
    """Instructions with functions among them."""

    parts: tuple[Any, ...]
    every: Every = "conversation"

    async def of_task(
        self, held: HeldLog, task: TaskState, scope: TaskScope, dependencies: Dependencies | None
    ) -> str:
        """Return what the functions return, now or in an earlier activation."""
        texts = task.instructions or {}
        if self.every == "conversation":
            texts = task.main.messages.instructions or {}
        if (text := texts.get(scope.agent)) is None:
            text = await self.text(held, scope, dependencies)
            # Recorded, so that a restart sends the same prompt and a provider's cache still fits.
            held.add(PromptResolved(text=text, agent=scope.agent), task.task_id)
        return text

    async def text(self, hold: Hold, scope: TaskScope, dependencies: Dependencies | None) -> str:
        """Return the instructions of a task. Raises PromptNotResolved if a function fails."""
        texts = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            # Made only for functions that name a type: an unread pool costs a connection.
            deps: Any = MISSING
            if needs_of(part) is not None:
                if dependencies is None:
                    raise ConfigError(NO_DEPS)
                deps = await dependencies.deps(hold, scope)
            made: Any = None
            with CaughtError() as fault:
                made = part(AgentContext(scope, deps))
                made = await made if inspect.isawaitable(made) else made
            if fault.error is not None:
                raise PromptNotResolved(
                    f"the instructions {name_of(part)!r} of agent {scope.agent!r} failed: "
                    f"{fault.error!r}"
                ) from fault.error
            if not isinstance(made, str):
                raise PromptNotResolved(
                    f"the instructions {name_of(part)!r} of agent {scope.agent!r} must return a "
                    f"text, found {made!r}"
                )
            texts.append(made)
        return joined(texts)


def read_instructions(given: Any, every: Any, agent: str) -> tuple[str, InstructionParts | None]:
    """Return instructions as text, or what makes the text. Raises ConfigError."""
    if every not in EACH:
        raise ConfigError(f"instructions_every must be conversation or task; found {every!r}")
    # Not all callables are functions: an object with `__call__` may keep the texts of a project.
    is_one = isinstance(given, str) or callable(given) or not isinstance(given, Iterable)
    parts = (given,) if is_one else tuple(given)
    for part in parts:
        if not (isinstance(part, str) or (callable(part) and takes(part, 1))):
            raise ConfigError(
                f"instructions of agent {agent!r} take texts, and functions with one argument, "
                f"an AgentContext; found {part!r}"
            )
    if all(isinstance(part, str) for part in parts):
        return joined(parts), None
    return "", InstructionParts(parts, every)


def joined(texts: Iterable[str]) -> str:
    """Return texts as paragraphs of one; empty ones are left out."""
    return "\n\n".join(text for text in texts if text)
