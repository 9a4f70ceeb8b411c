"""What callers may know about a tool."""

from collections.abc import Callable

from msgspec import Struct

from penstock.core.call import ONCE, Effect, RetryPolicy
from penstock.core.envelope import Json
from penstock.resources.project.files import ProjectFiles
from penstock.tools.shell import ShellSettings

Exclusive = bool | str | Callable[[Json], str]
"""True: runs alone in its reply. A key, or a function from input to key: runs in turn."""
Look = Callable[[Json, ProjectFiles, ShellSettings], None]
"""Raises a CallError, as a run does, for what an input names and the agent may not use."""

BUILTIN = "builtin"
"""The kind of the tools that come with the runtime."""
ANY_INPUT: Json = {"type": "object"}


class ToolSpec(Struct, frozen=True, kw_only=True):
    """The public face of a tool, without how it runs."""

    tool_id: str
    description: str
    input_schema: Json
    output_schema: Json | None = None
    offered_schema: Json | None = None
    """What models are offered, where the tool also takes a form for scripts or an old name."""
    timeout_ms: int = 60_000
    """Of one attempt, nested calls included; time spent waiting for people is free."""
    effect: Effect = Effect.WRITE
    """After a crash a write is not run again; anything else is."""
    idempotent: bool = False
    """A write that may run again after a crash, with the same idempotency key."""
    is_frame: bool = False
    """Acts through calls of its own alone, so a crash enters it again and they decide."""
    stays_inside: bool = False
    """A write to the runtime's own stores, done with the record of its outcome: all or nothing."""
    is_global: bool = False
    """Every model may call it, whatever an agent's settings and skills say."""
    is_offered: bool = True
    """Models are offered it where an agent's settings name no tools; others come with skills. For
    built-in tools the project decides (`builtins/families.py`)."""
    is_broken: bool = False
    """Whether only its id could be read. A call reports its errors."""
    direct_call: bool = False
    """Callable by `/call`, by programs, and by any script."""
    script_tools: frozenset[str] = frozenset()
    """Tools that its own script may call when it is the direct call."""
    requires_permissions: frozenset[str] = frozenset()
    requires_approval: bool | Json = False
    """A person must say yes; a schema: only if the input matches it."""
    asks_in_chats: bool = False
    """A person must say yes, but in an agent session of a flow, where `access` bounds it."""
    retry: RetryPolicy = ONCE
    exclusive: Exclusive = False
    look: Look | None = None
    """Refuses paths and commands without a run, before a person is asked."""
    labels: tuple[str, ...] = ()
    kind: str = BUILTIN
    """`builtin`, `python`, `script`, `plugin`; where the tool comes from, for lists."""

    @property
    def parameters(self) -> Json:
        """The JSON Schema that models are offered; `input_schema` takes all that fits it."""
        return self.input_schema if self.offered_schema is None else self.offered_schema

    @property
    def is_cut_short(self) -> bool:
        """Whether it is unknown, after a call was cut, if its effect happened."""
        return self.effect is Effect.WRITE and not (self.is_frame or self.stays_inside)
