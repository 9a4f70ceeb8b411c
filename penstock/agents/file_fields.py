"""What may stand in an agent file, as a table: each field, what it may be, and what it means."""

import re
from typing import Any

from penstock.agents.charter import Card, Purpose
from penstock.agents.file_kinds import Inputs, Section
from penstock.manifest.authored_kinds import Names, Whole
from penstock.manifest.fields import Field, Kind
from penstock.manifest.kinds import Flag, OneOf, Text
from penstock.manifest.outputs import Outputs
from penstock.resources.project_access import OPEN, Access

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_TURNS = 1000
THINKING = ("off", "minimal", "low", "medium", "high", "xhigh")
SELECTED = "selected_skills"
_TEXT = Text(wanted="text")
_PATTERNS = Names(wanted="a list of patterns", item_wanted="a pattern")
_PATHS = Names(wanted="a list of paths", item_wanted="a path")


def _row(key: str, kind: Kind, meaning: str, default: Any = None) -> Field:
    return Field(key=key, kind=kind, meaning=meaning, default=default)


def _card(**texts: str) -> Card:
    return Card(card_type=texts.pop("type"), **texts)


def _access(
    read: tuple[str, ...] | None, write: tuple[str, ...] | None, bash: tuple[str, ...]
) -> Access:
    return Access(read=read, write=write, deny=bash)


CARD = tuple(_row(key, _TEXT, "for displays", "") for key in ("type", "label", "metric", "role"))
PURPOSE = (
    _row("use_when", _TEXT, "when to choose it; else the description", ""),
    _row("produces", _TEXT, "what comes of it", ""),
    _row("depends_on", _TEXT, "what it needs", ""),
    _row("domain", _TEXT, "what it knows about", ""),
)
BASH = (_row("deny", _PATTERNS, "commands that are refused", ()),)
ACCESS = (
    _row("read", _PATTERNS, "files it may read; else all that are not protected"),
    _row("write", _PATTERNS, "files it may write; else all that are not protected"),
    _row("bash", Section(fields=BASH, build=lambda deny: deny), "its shell", ()),
)
FIELDS = (
    _row("name", Text(wanted="an agent name", form=NAME), "its name in the catalog", ""),
    _row("description", _TEXT, "one line, for lists and for who designs flows", ""),
    _row(
        "model", Text(wanted="a model name", least=1), "a name, `@role`, or either with `:thinking`"
    ),
    _row("thinking", OneOf(words=THINKING), "how much it thinks; beats the suffix of the model"),
    _row(
        "tools",
        Names(wanted="a list of tool names", item_wanted="a tool name"),
        "the only tools it is let through to",
    ),
    _row(
        "skills",
        Names(wanted="a list of handbook names", item_wanted="a handbook name"),
        "handbooks whose index it reads",
        (),
    ),
    _row("inputs", Inputs(), "names that steps wire: `${{input.NAME}}`", ()),
    _row("outputs", Outputs(), "what it gives to `finish`", ()),
    _row("interactive", Flag(), "whether it may ask a person", default=True),
    _row("output", _TEXT, "a hint what the file of its result is called", ""),
    _row("context_files", _PATHS, "files that it reads from the start", ()),
    _row("context", _PATHS, "another name of `context_files`", ()),
    _row("fork_session", Flag(), "has no effect", default=False),
    _row("access", Section(fields=ACCESS, build=_access), "what it may do with files", OPEN),
    _row("card", Section(fields=CARD, build=_card), "how displays show it", Card()),
    _row("architect", Section(fields=PURPOSE, build=Purpose), "for who designs flows", Purpose()),
    _row("max_turns", Whole(low=1, high=MOST_TURNS), "model calls in one visit"),
    _row(
        SELECTED,
        Names(wanted="a list of skill ids", item_wanted="a skill id"),
        "in a chat: the skills selected from the start",
        (),
    ),
    _row(
        "labels",
        Names(wanted="a list of texts"),
        "in a chat: what skills ask for with `requires_labels`",
        (),
    ),
)
"""In the order of the page. The last two are read by chats alone, `model` and `tools` by both."""
