"""The specification of a tool: all that callers may know about it."""

from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from penstock.core.call import ONCE, Effect, RetryPolicy
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Schema
from penstock.resources.project.files import ProjectFiles
from penstock.tools.shell import ShellSettings

Exclusive = bool | str | Callable[[Json], str]
"""True: runs alone in its reply. A key, or a function from input to key: runs in turn."""
CheckBounds = Callable[[Json, ProjectFiles, ShellSettings], None]
"""Raises the CallError of a run for an input that names files or commands out of bounds."""

BUILTIN = "builtin"
"""The kind of the tools that come with the runtime."""
ANY_INPUT: Json = {"type": "object"}


class ToolSpec(Struct, frozen=True, kw_only=True, dict=True):
    """The public face of a tool, without how it runs."""

    tool_id: str
    description: str
    input_schema: Json
    output_schema: Json | None = None
    offered_schema: Json | None = None
    """The input schema for models, if the tool also takes a form for scripts or an old name."""
    timeout_ms: int = 60_000
    """The longest time of one attempt with its nested calls; waiting for people does not count."""
    effect: Effect = Effect.WRITE
    """After a crash a write is not run again; every other tool is."""
    idempotent: bool = False
    """Whether a write may run again after a crash, with the same idempotency key."""
    is_frame: bool = False
    """Whether it acts only through nested calls: after a crash it runs again, and they decide what
    repeats."""
    is_transactional: bool = False
    """Whether it writes only to the runtime's own stores, in one transaction with its outcome."""
    is_global: bool = False
    """Whether every model may call it, whatever its agent's settings and skills grant."""
    is_offered: bool = True
    """Whether models are offered it by default; other tools come with skills or the settings of an
    agent. For built-in tools the project decides (`builtins/families.py`)."""
    is_broken: bool = False
    """Whether only its id could be read. A call reports its errors."""
    direct_call: bool = False
    """Whether `/call`, programs, and any script may call it."""
    script_tools: frozenset[str] = frozenset()
    """Tools that its own script may call when it is the direct call."""
    requires_permissions: frozenset[str] = frozenset()
    requires_approval: bool | Json = False
    """A person must approve the call; a schema: only if the input matches it."""
    asks_in_chats: bool = False
    """A person must approve the call, except in a session of a flow, where `access` bounds it."""
    retry: RetryPolicy = ONCE
    exclusive: Exclusive = False
    check_bounds: CheckBounds | None = None
    """Refuses paths and commands before a person is asked, without a run."""
    labels: tuple[str, ...] = ()
    revert: str = ""
    """The tool that takes a call back; empty if nothing does."""
    state_family: str = ""
    """The tools with which it shares its values of conversations and profiles; empty: none."""
    has_default_effect: bool = False
    """Whether its author said nothing of its effect."""
    kind: str = BUILTIN
    """Where the tool comes from: `builtin`, `python`, `script` or `plugin`."""

    @cached_property
    def compiled_input(self) -> Schema:
        """The schema that inputs are checked with, compiled on first use."""
        return Schema(self.input_schema)

    @cached_property
    def compiled_output(self) -> Schema | None:
        """The schema that outputs are checked with; None if the tool declares none."""
        return None if self.output_schema is None else Schema(self.output_schema)

    @cached_property
    def parameters(self) -> Json:
        """The JSON Schema for models. Every input that fits it also fits `input_schema`."""
        return self.input_schema if self.offered_schema is None else self.offered_schema

    def exclusive_key(self, input: Json) -> str | None:
        """Return the key of calls that run in turn with this one, if `exclusive` gives one."""
        if isinstance(self.exclusive, bool):
            return None
        if isinstance(self.exclusive, str):
            return self.exclusive
        # Only for an input that the tool would run with: the function may rely on the schema.
        return None if self.compiled_input.problems(input) else str(self.exclusive(input))

    @property
    def is_ambiguous_when_cut(self) -> bool:
        """Whether the effect of a call that was cut off may or may not have happened."""
        return self.effect is Effect.WRITE and not (self.is_frame or self.is_transactional)
