"""The name of an agent, and the part of an agent file that only flows and catalogs read."""

import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, TypedDict

from msgspec import Struct, field

from penstock.core.errors import ConfigError
from penstock.core.events.flow_events import Output
from penstock.models.model import Model
from penstock.resources.project.access import OPEN, Access
from penstock.tools.hooks.hooks import Hooks

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""The name of an agent: of one in a file as of one in a program."""
_MOST_CHARACTERS = 64


def checked_name(name: object) -> str:
    """Return the name of an agent of a program. Raises ConfigError for what a file may not have."""
    if isinstance(name, str) and NAME.fullmatch(name):
        return name
    if isinstance(name, str) and ":" in name:  # the first argument is that of a model elsewhere
        raise ConfigError(
            f"the first argument of Agent is its name, which has no colon, found {name!r}; "
            f"to choose a model, write Agent('assistant', model={name!r})"
        )
    plain = unicodedata.normalize("NFKD", name if isinstance(name, str) else "")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", re.sub(r"[\u0300-\u036f]", "", plain)).strip("-._")
    raise ConfigError(
        f'"name" must be an agent name: 1 to {_MOST_CHARACTERS} letters (A to Z), digits, ".", '
        f'"_" or "-", the first a letter or a digit; found {repr(name)[:_MOST_CHARACTERS]}; '
        f"write Agent({plain[:_MOST_CHARACTERS] or 'assistant'!r})"
    )


class Tier(StrEnum):
    """Where an agent comes from. The values are the wire format."""

    LOCAL = "local"
    PACKAGE = "package"
    BUILT_IN = "built-in"


class AgentInput(Struct, frozen=True, kw_only=True):
    """An input that steps wire and the instructions can read."""

    name: str
    description: str = ""


class DisplayCard(Struct, frozen=True, kw_only=True):
    """How displays show the agent."""

    card_type: str = ""
    label: str = ""
    metric: str = ""
    role: str = ""


class ArchitectNotes(Struct, frozen=True, kw_only=True):
    """Notes about the agent that the flow architect sees."""

    use_when: str = ""
    """The description, if the file does not set it."""
    produces: str = ""
    depends_on: str = ""
    domain: str = ""


class AgentProfile(Struct, frozen=True, kw_only=True):
    """The settings of an agent file that a chat does not use."""

    tier: Tier = Tier.LOCAL
    file: str = ""
    """Path of the file, relative to the project if it is local; empty if there is no file."""
    content_hash: str = ""
    """SHA-256 of the whole text."""
    thinking: str | None = None
    """The level; None: the suffix of the model's name decides, or the model itself."""
    tools: tuple[str, ...] = ()
    """The declared tools. A guard allows only these and those of the context."""
    handbooks: tuple[str, ...] = ()
    inputs: tuple[AgentInput, ...] = ()
    body_inputs: frozenset[str] = frozenset()
    """Inputs that the instructions read, declared or not."""
    outputs: tuple[Output, ...] = ()
    is_interactive: bool = True
    output: str = ""
    """Hint for the agent: the name of the file to write."""
    context_files: tuple[str, ...] = ()
    access: Access = OPEN
    card: DisplayCard = field(default_factory=DisplayCard)
    purpose: ArchitectNotes = field(default_factory=ArchitectNotes)
    max_turns: int | None = None
    """Model calls in one visit; None means the limit of the runtime."""
    reply_tokens: int | None = None
    """Tokens of one reply, if the file sets them; None leaves room to write whole files."""

    @property
    def source(self) -> str:
        """`file`, `api` or `builtin`, as the wire has it."""
        if self.tier is Tier.BUILT_IN:
            return "builtin"
        return "file" if self.file else "api"


NO_FILE = AgentProfile()
"""The profile of an agent without a file."""


class FileOptions(TypedDict, total=False):
    """The arguments of `Agent.from_file` beside its output: what a file cannot say.

    Example:
        >>> from penstock import FileOptions
        >>> options: FileOptions = {"output_mode": "native", "output_retries": 1}
    """

    output_mode: Literal["tool", "native", "prompted"]
    """How the model gives a typed output; default `tool`."""
    output_retries: int
    """How often the model may correct an output that does not fit; default 2."""
    history: Literal["trim", "summarise"]
    """How long conversations stay within the window; default `trim`."""
    summary_model: str | Model
    """The model that writes summaries, instead of its own."""
    hooks: Sequence[Hooks[object]]
    """Code that sees, changes or stops what it does."""
