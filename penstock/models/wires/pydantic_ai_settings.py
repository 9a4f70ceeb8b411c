"""Requests as Pydantic AI's settings and parameters, for what each of its models can do.

Guarantees that a setting which the library or the model does not know is left out, with one warning
per model and setting, instead of refused. Members of `extra` join the body of the request; those
with the name of a setting of the provider, such as `google_safety_settings`, become settings.
Proof: tests/models/wires/test_pydantic_ai_settings.py.
"""

import logging
from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP
from pydantic_ai.settings import ModelSettings, ThinkingEffort
from pydantic_ai.tools import ToolDefinition

from penstock.models.model import ModelRequest
from penstock.models.names import DEFAULT_ROOM, OFF, ROOM
from penstock.models.providers import ModelConfig
from penstock.models.wires.wire_names import WireNames, fitting_name

log = logging.getLogger(__name__)

_LEVELS: dict[str, ThinkingEffort] = {
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
SIGNED = {"anthropic", "bedrock"}
"""Providers that may refuse to continue a loop of calls without the thinking before it."""
_STORING = ("azure", "openai")
"""Providers that store replies unless a request says otherwise."""
_COUNTS_THOUGHTS = {*SIGNED, "google", "google-cloud"}
"""Providers whose limit of output tokens includes reasoning."""


class LibrarySettings:
    """How one model is asked."""

    def __init__(self, model: Model, config: ModelConfig) -> None:
        self._model = model
        self._config = config
        self._card = config.card
        self._warned: set[str] = set()

    def parameters(
        self, request: ModelRequest, tools: list[ToolDefinition]
    ) -> ModelRequestParameters:
        """Return the tools, and the form of the reply that the provider is to enforce."""
        if request.output is None or not self._card.json_schema:
            return ModelRequestParameters(function_tools=tools)
        profile = self._model.profile
        can_have_tools = profile.get("google_supports_tool_combination", True)
        is_native = profile.get("supports_json_schema_output", False) and (
            can_have_tools or not tools
        )
        if not is_native:
            self._leave_out("output", "enforces no schema here", "goes into the system prompt")
        return ModelRequestParameters(
            function_tools=tools,
            output_mode="native" if is_native else "prompted",
            output_object=OutputObjectDefinition(
                json_schema=dict(request.output.schema),
                name=fitting_name(request.output.name),
                strict=True,
            ),
        )

    def settings(
        self, request: ModelRequest, names: WireNames, *, lacks_thinking: bool
    ) -> ModelSettings:
        """Return the settings of a request that this model can follow.

        `lacks_thinking`: a reply of the current task that asked for calls is sent without thinking.
        """
        settings: dict[str, Any] = {}
        if self._config.provider.startswith(_STORING):
            settings["openai_store"] = False
        elif "cache" not in self._ignored:
            # Cache points, where the provider wants them: tools, instructions, the last message.
            settings["cache"] = request.cache_ttl or True
        if request.max_tokens is not None:
            settings["max_tokens"] = request.max_tokens
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        if request.top_p is not None:
            settings["top_p"] = request.top_p
        if request.seed is not None:
            settings["seed"] = request.seed
        if request.stop:
            settings["stop_sequences"] = list(request.stop)
        if request.parallel_calls is False and request.tools:
            settings["parallel_tool_calls"] = False
        self._think(settings, request, lacks_thinking=lacks_thinking)
        self._choose(settings, request, names)
        self._add_extra(settings, request)
        for name in self._ignored & settings.keys():
            del settings[name]
            self._leave_out(name, "does not know it")
        return cast("ModelSettings", settings)

    @property
    def _ignored(self) -> frozenset[str]:
        """The settings that the library would leave out on its own, some without a word."""
        profile: Mapping[str, Any] = self._model.profile
        return frozenset(
            {
                *self._model.unsupported_settings,
                *profile.get("openai_unsupported_model_settings", ()),
            }
        )

    def _think(
        self, settings: dict[str, Any], request: ModelRequest, *, lacks_thinking: bool
    ) -> None:
        """Set the level of thinking, with room for it in the longest reply."""
        profile, level = self._model.profile, request.thinking
        is_forced = profile.get("thinking_always_enabled", False)
        thinks = is_forced or profile.get("thinking_enabled_by_default", False)
        if level is not None:
            if not (is_forced or profile.get("supports_thinking", False)):
                if level != OFF:
                    self._leave_out("thinking", "has no levels of thinking")
                return
            is_manual = not profile.get("anthropic_supports_adaptive_thinking", False)
            if self._config.provider in SIGNED and is_manual and lacks_thinking:
                # All thinking of the current task or none: the provider refuses a part of it.
                level = OFF
            settings["thinking"] = False if level == OFF else _LEVELS[level]
            thinks = level != OFF
        if not thinks:
            return
        if self._config.provider in SIGNED:
            for name in ("temperature", "top_p"):
                if settings.pop(name, None) is not None:
                    self._leave_out(name, "accepts no sampling settings while it thinks")
        if self._config.provider in _COUNTS_THOUGHTS and "max_tokens" in settings:
            room = DEFAULT_ROOM if level is None else max(ROOM[level], _budget(level))
            settings["max_tokens"] += room

    def _choose(self, settings: dict[str, Any], request: ModelRequest, names: WireNames) -> None:
        """Set whether the model must call a tool."""
        choice = "none" if request.closing else request.tool_choice
        if choice in {None, "auto"} or not request.tools:
            return
        if choice == "none":
            settings["tool_choice"] = "none"
            return
        profile = self._model.profile
        can_force = profile.get("supports_forced_tool_choice", True) and profile.get(
            "anthropic_supports_forced_tool_choice", True
        )
        if self._config.provider in SIGNED and settings.get("thinking"):
            can_force = False
        if not can_force:
            self._leave_out("tool_choice", "cannot be forced to call a tool")
        elif choice == "required":
            settings["tool_choice"] = "required"
        else:
            settings["tool_choice"] = [names.sent(choice or "")]

    def _add_extra(self, settings: dict[str, Any], request: ModelRequest) -> None:
        """Add settings of the library by their names, and all else to the body of the request."""
        given = {**self._config.extra, **request.extra}
        extra = {name: value for name, value in given.items() if value is not None}
        if request.closing or "tool_choice" in settings:
            extra.pop("tool_choice", None)
        beginning = self._config.provider.partition("-")[0] + "_"
        takes_body = "extra_body" not in self._ignored
        body = {}
        for name, value in extra.items():
            is_setting = name in ModelSettings.__annotations__ and not takes_body
            if name.startswith(beginning) or is_setting:
                settings[name] = value
            elif takes_body:
                body[name] = value
            else:
                self._leave_out(name, "takes no members of its own in a request")
        if body:
            settings["extra_body"] = body

    def _leave_out(self, name: str, why: str, then: str = "is left out") -> None:
        """Warn, once, of a setting that the model cannot follow."""
        if name not in self._warned:
            self._warned.add(name)
            log.warning("the model %r %s: %s %s", self._card.model_id, why, name, then)


def offered_tools(request: ModelRequest, names: WireNames) -> list[ToolDefinition]:
    """Return the tools that the model may call."""
    return [
        ToolDefinition(
            name=names.sent(tool.name),
            description=tool.description,
            parameters_json_schema=dict(tool.parameters),
        )
        for tool in request.tools
    ]


def _budget(level: str) -> int:
    """Return the tokens of thinking that the library asks for, where a model counts them."""
    return 0 if level == OFF else ANTHROPIC_THINKING_BUDGET_MAP[_LEVELS[level]]
