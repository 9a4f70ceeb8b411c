"""The fields of an agent file as a table: each field, its kind, and its meaning."""

import re
from typing import Any

from penstock.agents.agent_profile import ArchitectNotes, DisplayCard
from penstock.agents.file_kinds import AnyValue, Inputs, LenientRecord
from penstock.agents.file_settings import AgentSettings
from penstock.manifest.authored_kinds import AuthoredInteger, Names, Outputs
from penstock.manifest.fields import Field, Kind
from penstock.manifest.kinds import Boolean, OneOf, Text
from penstock.resources.project.access import OPEN, Access

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_TURNS = 1000
THINKING = ("off", "minimal", "low", "medium", "high", "xhigh")
SELECTED = "selected_skills"
_TEXT = Text(wanted="text")
_PATTERNS = Names(wanted="a list of patterns", item_wanted="a pattern")
_PATHS = Names(wanted="a list of paths", item_wanted="a path")


def _row(key: str, kind: Kind, meaning: str, default: Any = None) -> Field:
    return Field(key=key, kind=kind, meaning=meaning, default=default)


def _card(**texts: str) -> DisplayCard:
    return DisplayCard(card_type=texts.pop("type"), **texts)


def _access(
    read: tuple[str, ...] | None, write: tuple[str, ...] | None, bash: tuple[str, ...] | None
) -> Access:
    return Access(read=read, write=write, deny=bash or ())


CARD = tuple(
    _row(key, AnyValue(), "For displays.", "") for key in ("type", "label", "metric", "role")
)
PURPOSE = (
    _row("use_when", _TEXT, "When to choose it; else the description.", ""),
    _row("produces", _TEXT, "What comes of it.", ""),
    _row("depends_on", _TEXT, "What it needs.", ""),
    _row("domain", _TEXT, "What it knows about.", ""),
)
BASH = (_row("deny", _PATTERNS, "Commands that are refused.", ()),)
ACCESS = (
    _row("read", _PATTERNS, "Files it may read; else all that are not protected."),
    _row("write", _PATTERNS, "Files it may write; else all that are not protected."),
    _row("bash", LenientRecord(fields=BASH, build=lambda deny: deny), "Its shell."),
)
FIELDS = (
    Field(
        key="name",
        kind=Text(wanted="an agent name", form=NAME),
        meaning="What steps and chats call it.",
        required=True,
        default="",
    ),
    _row("description", _TEXT, "One line, for lists and for the flow architect.", ""),
    _row(
        "model",
        Text(wanted="a model name", least=1),
        "A configured name, `provider/id` or `@role`; `:high` behind it is how much it thinks. "
        "Else the default of the project.",
    ),
    _row(
        "thinking",
        OneOf(words=THINKING),
        "Level of thinking; wins over the suffix of the model.",
    ),
    _row(
        "tools",
        Names(wanted="a list of tool names", item_wanted="a tool name"),
        "The only tools that it may call. Without the field a chat has all, a flow none.",
    ),
    _row(
        "skills",
        Names(wanted="a list of handbook names", item_wanted="a handbook name"),
        "Handbooks of which it reads the index.",
        (),
    ),
    _row("inputs", Inputs(), "What a step passes to it: `${{input.NAME}}`.", ()),
    _row("outputs", Outputs(), "What it hands on with `finish`.", ()),
    _row("interactive", Boolean(), "Whether it may ask a person.", default=True),
    _row("output", _TEXT, "A hint what the file of its result is called.", ""),
    _row("context_files", _PATHS, "Files that it reads from the start.", ()),
    _row("context", _PATHS, "Another name of `context_files`.", ()),
    _row("fork_session", Boolean(), "Has no effect.", default=False),
    _row(
        "access",
        LenientRecord(fields=ACCESS, build=_access),
        "What it may do with the project.",
        OPEN,
    ),
    _row("card", LenientRecord(fields=CARD, build=_card), "How displays show it.", DisplayCard()),
    _row(
        "architect",
        LenientRecord(fields=PURPOSE, build=ArchitectNotes),
        "Notes for the flow architect.",
        ArchitectNotes(),
    ),
    _row(
        "max_turns",
        AuthoredInteger(low=1, high=MOST_TURNS),
        "How often the model is asked in one visit; a chat grants 50.",
    ),
    _row(
        SELECTED,
        Names(wanted="a list of skill ids", item_wanted="a skill id"),
        "In a chat: the skills selected from the start.",
        (),
    ),
    _row(
        "labels",
        Names(wanted="a list of texts"),
        "In a chat: what skills ask for with `requires_labels`.",
        (),
    ),
    _row("settings", AgentSettings(), "How it works: limits, budgets, permissions.", {}),
)
"""In the order of the page. Skills and labels are read by chats alone, `model` and `tools` by both,
and of the settings budgets and iterations by chats alone."""
