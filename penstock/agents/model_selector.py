"""The model that answers for an agent: its own, the requested one, or the project's default."""

from collections.abc import Callable

from penstock.agents.agent import AnyAgent
from penstock.models.fallback import Fallback
from penstock.models.model import Model
from penstock.models.names import ModelNames, ThinkingModel
from penstock.models.resolve import ModelRegistry

FindModel = Callable[[AnyAgent, str | None], Model]
"""Returns the model of an agent, or the requested one. Raises ConfigError."""


class ModelSelector:
    """Chooses the model of an agent among the models of a project."""

    def __init__(self, models: ModelRegistry, names: ModelNames) -> None:
        self._models = models
        self._names = names

    def choose(self, agent: AnyAgent, requested: str | None) -> Model:
        """Return the model that answers for an agent. Raises ConfigError for an unknown name.

        A model object that the agent was made with answers, unless another model is requested for
        this task. Otherwise `Agent.model_name` decides; None means the project's default. The level
        of thinking in the agent's file goes before a level in the name.
        """
        own = agent.model
        if not (own is None or isinstance(own, str)) and requested in {None, own.card.model_id}:
            return own.bound(self._named) if isinstance(own, Fallback) else own
        return self._named(agent.model_name(requested), agent.profile.thinking)

    def _named(self, name: str | None, level: str | None = None) -> Model:
        # A configured name is used as written, even if it looks like `provider:model` or ends like
        # a level of thinking: the operator's table wins over the syntax of names.
        if name is None or self._models.has(name):
            model = self._models.get(name)
        else:
            model = self._models.get(self._names.model(name))
            level = level or self._names.thinking(name)
        return model if level is None else ThinkingModel(model, level)

    def remark(self, agent: AnyAgent, requested: str | None) -> str:
        """Return a warning if the model is a role without a model, or an empty text."""
        role = self._names.unset(agent.model_name(requested))
        if not role:
            return ""
        return (
            f"the model role @{role} is not set: the project's model is used;"
            f" write {role} under [models.roles]"
        )
