"""Properties of OpenAI's models that their names tell: reasoning, its levels, what they read.

From pydantic-ai 2.68.0, `profiles/openai.py`, where they were checked against the live API. A name
that is not in the lists has no capability. Proof: tests/models/wires/test_openai_card.py.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from penstock.models.model import ModelCard
from penstock.models.names import ALWAYS_ROOM, DEFAULT_ROOM, OFF, ROOM
from penstock.models.providers import OPENAI, ModelConfig

NONE = "none"
"""The effort that turns reasoning off."""
LEVELS = (NONE, "minimal", "low", "medium", "high", "xhigh", "max")
"""Efforts, lowest first."""
_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")
OPENAI_HOST = "api.openai.com"
_ENFORCING = ("llama.cpp", "ollama", "vllm")
"""Servers that hold a reply to a schema, and to a call."""
_TO_HIGH = ("low", "medium", "high")
_OF_OTHERS = (NONE, *_TO_HIGH)
"""Efforts that most servers know."""
DEEPSEEK = "deepseek"
_LEVELED = ("deepseek-flash", "deepseek-v4")
_OF_DEEPSEEK = ("low", "high", "max")
"""The efforts of DeepSeek's models that have levels of thinking."""
_TO_XHIGH = (NONE, *_TO_HIGH, "xhigh")
_TO_MAX = (*_TO_XHIGH, "max")
_PRO = ("medium", "high", "xhigh")
_REASONING: Sequence[tuple[str, bool, tuple[str, ...]]] = (
    ("gpt-6-astra", True, _TO_MAX[1:]),
    ("gpt-6.1-sol", True, _TO_MAX[1:]),
    ("gpt-6", True, _TO_MAX),
    ("gpt-5.6", True, _TO_MAX),
    ("gpt-5.5-pro", True, _PRO),
    ("gpt-5.5", True, _TO_XHIGH),
    ("gpt-5.4-pro", True, _PRO),
    ("gpt-5.3-chat", True, ("medium",)),
    ("gpt-5.2-pro", True, _PRO),
    ("gpt-5.2-chat", True, ("medium",)),
    ("gpt-5.1-codex", True, _TO_XHIGH[1:]),
    ("gpt-5.1-chat", True, ("medium",)),
    ("gpt-5.", False, _TO_XHIGH),
    ("gpt-5-chat", False, ()),
    ("gpt-5-pro", True, ("high",)),
    ("gpt-5-codex", True, _TO_HIGH),
    ("gpt-5", True, ("minimal", *_TO_HIGH)),
    ("o1", True, _TO_HIGH),
    ("o3", True, _TO_HIGH),
    ("o4", True, _TO_HIGH),
)
"""The beginning of a name, whether the model reasons unless told otherwise, and its efforts. The
first row that fits counts."""
_READING = ("gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o1", "o3", "o4")
_TEXT_ONLY = ("o1-mini", "o1-preview", "o3-mini")
_NO_SCHEMA = ("o1-mini", "o1-preview", "gpt-4o-2024-05-13")
_HEARING = ("gpt-4o-audio", "gpt-4o-mini-audio", "gpt-audio")


def responses_card(config: ModelConfig) -> ModelCard:
    """Return the card of a model on the Responses API."""
    return config.of_operator(openai_card(config.card, "openai-responses"))


def chat_card(config: ModelConfig) -> ModelCard:
    """Return the card of a model on the chat API: of OpenAI, or of another server."""
    if is_openai(config):
        return config.of_operator(openai_card(config.card, OPENAI))
    card = replace(
        config.card,
        family=config.card.name,
        api=OPENAI,
        json_schema=config.provider in _ENFORCING,
        forced_tool_choice=config.provider in _ENFORCING,
        efforts=_OF_OTHERS,
        sampling=True,
    )
    if config.provider == DEEPSEEK:
        has_levels = card.name.startswith(_LEVELED)
        thinks = has_levels or card.name == "deepseek-reasoner"
        efforts = _OF_DEEPSEEK if has_levels else ()
        card = replace(card, efforts=efforts, thinks_by_default=thinks)
    return config.of_operator(card)


def is_openai(config: ModelConfig) -> bool:
    """Whether the address is OpenAI's own."""
    return config.base_url is None or OPENAI_HOST in config.base_url


def openai_card(card: ModelCard, api: str) -> ModelCard:
    """Return the card with what the model's name tells. `api` is the wire."""
    name = card.name
    reads = name.startswith(_READING)
    by_default, efforts = _reasoning(name)
    sees = reads and not name.startswith(_TEXT_ONLY)
    is_chat = api == OPENAI
    if is_chat and "max" in efforts:  # the chat API refuses it for each model
        efforts = efforts[:-1]
    return replace(
        card,
        family=_DATE.sub("", name),
        api=api,
        images=sees,
        pdf=sees,
        audio=is_chat and name.startswith(_HEARING),
        tool_images=sees and not is_chat,
        json_schema=reads and not name.startswith(_NO_SCHEMA),
        forced_tool_choice=reads,
        thinks_by_default=by_default,
        efforts=efforts,
        sampling=not efforts or NONE in efforts,
    )


def effort(level: str, card: ModelCard) -> str:
    """Return the effort for a level: the lowest one at or above it, or else the highest."""
    wanted = LEVELS.index(NONE if level == OFF else level)
    known = [each for each in LEVELS if each in card.efforts]
    return next((each for each in known if LEVELS.index(each) >= wanted), known[-1])


def is_reasoning(level: str | None, card: ModelCard) -> bool:
    """Whether the model reasons at this level; None is its default."""
    if level is None:
        return card.thinks_by_default
    return bool(card.efforts) and effort(level, card) != NONE


def longest(max_tokens: int | None, level: str | None, card: ModelCard) -> int | None:
    """Return the longest reply with room for reasoning: the provider counts both together."""
    if max_tokens is None:
        return None
    room = 0
    if is_reasoning(level, card):
        room = DEFAULT_ROOM if level is None else ROOM.get(level) or ALWAYS_ROOM
    return min(max_tokens + room, card.max_output or max_tokens + room)


def _reasoning(name: str) -> tuple[bool, tuple[str, ...]]:
    rows = (row[1:] for row in _REASONING if name.startswith(row[0]))
    return next(rows, (False, ()))
