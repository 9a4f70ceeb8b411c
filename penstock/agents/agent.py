"""Instructions, a model and tools under one name."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass

from penstock.agents.charter import NO_FILE, Charter, Tier
from penstock.agents.settings import DEFAULTS, ChatSettings
from penstock.core.ids import ASSISTANT
from penstock.models.model import Model
from penstock.tools.tool import Tool


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Agent:
    """Instructions, a model and tools under one name."""

    name: str = ASSISTANT
    _: KW_ONLY
    description: str = ""
    instructions: str = ""
    model: str | Model | None = None
    """A model, or the name of one; None is the project's default."""
    tools: Iterable[Tool] | None = None
    """Tools of its own, instead of the project's; None is the project's."""
    settings: ChatSettings = DEFAULTS
    charter: Charter = NO_FILE
    """What its file says for flows."""

    @property
    def has_file(self) -> bool:
        """Whether a file says what it is: no other agent takes part in flows."""
        return bool(self.charter.file)

    @property
    def source(self) -> str:
        """`file`, `api` or `builtin`, as the wire has it."""
        if self.charter.tier is Tier.BUILT_IN:
            return "builtin"
        return "file" if self.has_file else "api"


FindModel = Callable[[Agent, str | None], Model]
"""The model for an agent, or the one that a message or a step asks for. Raises ConfigError."""
