"""Instructions, a model and tools under one name."""

from collections.abc import Iterable

from penstock.agents.settings import DEFAULTS, ChatSettings
from penstock.models.model import Model
from penstock.tools.tool import Tool

ASSISTANT = "assistant"


class Agent:
    """Instructions, a model and tools under one name."""

    __slots__ = (
        "__weakref__",
        "description",
        "instructions",
        "model",
        "name",
        "settings",
        "source",
        "tools",
    )

    def __init__(  # noqa: PLR0913  what an agent is, by name
        self,
        name: str = ASSISTANT,
        *,
        description: str = "",
        instructions: str = "",
        model: str | Model | None = None,
        tools: Iterable[Tool] | None = None,
        settings: ChatSettings = DEFAULTS,
        source: str = "api",
    ) -> None:
        self.name = name
        self.description = description
        self.instructions = instructions
        self.model = model
        """A model, or the name of one; None is the project's default."""
        self.tools = None if tools is None else tuple(tools)
        """Tools of its own, instead of the project's; None is the project's."""
        self.settings = settings
        self.source = source
        """`file` or `api`."""
