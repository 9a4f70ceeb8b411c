"""Agents from files: Markdown with front matter; the body is the instructions."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.agents.agent import Agent
from penstock.agents.settings import ChatSettings
from penstock.core.diagnostics import Diagnostic, Severity, nearest
from penstock.manifest.front_matter import parse_front_matter
from penstock.manifest.source import Document, Place

FOLDERS = ("agents", ".pi/flows/agents")
"""Where a project's agents lie; an earlier folder hides names of a later one."""
MOST_FILES = 2000
MOST_BYTES = 1024 * 1024
MOST_TURNS = 50
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SELECTED = "selected_skills"
FIELDS = (
    "name",
    "description",
    "model",
    "thinking",
    "tools",
    "skills",
    "inputs",
    "outputs",
    "interactive",
    "output",
    "context_files",
    "context",
    "fork_session",
    "access",
    "card",
    "architect",
    "max_turns",
    SELECTED,
    "labels",
)
"""What may stand in an agent file. A chat reads name, description, model, tools, max_turns,
selected_skills and labels; `skills` are the handbooks of a flow."""
LISTS = {
    "tools": "a list of tool names",
    SELECTED: "a list of skill ids",
    "labels": "a list of strings",
}
_TOP = Place(line=1, column=1)


@dataclass(slots=True)
class AgentFiles:
    """What was found: the agents that can be used, and every finding."""

    agents: list[Agent] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def load_agents(root: Path, skills: Collection[str] | None = None) -> AgentFiles:
    """Read every agent of a project; a file with an error takes no part.

    `skills` are the ids of all that there are; without them nobody looks whether there are such.
    """
    found = AgentFiles()
    homes: dict[str, str] = {}
    for folder in FOLDERS:
        files = sorted((root / folder).glob("*.md"))
        if len(files) > MOST_FILES:
            said = f"the folder has {len(files)} files, only {MOST_FILES} are read"
            found.diagnostics.append(Diagnostic(code="too-many-files", message=said, file=folder))
        for path in files[:MOST_FILES]:
            if path.name.endswith(".chain.md"):
                continue
            file = path.relative_to(root).as_posix()
            agent, findings = _load(path, file, skills)
            found.diagnostics += findings
            if agent is None:
                continue
            if home := homes.get(agent.name):
                found.diagnostics.append(_again(agent.name, file, home))
            else:
                homes[agent.name] = file
                found.agents.append(agent)
    found.diagnostics.sort(key=lambda each: (each.file, each.line, each.column, each.code))
    return found


def parse_agent(
    text: str, file: str, skills: Collection[str] | None = None
) -> tuple[Agent | None, Sequence[Diagnostic]]:
    """Read one agent file; None if it has an error."""
    matter = parse_front_matter(text, file)
    head = matter.head
    fields = _Fields(head)
    if not any(each.severity is Severity.ERROR for each in head.problems):
        fields.check()
        fields.check_skills(skills)
    if any(each.severity is Severity.ERROR for each in head.problems):
        return None, head.problems
    tools = fields.texts("tools")
    turns = fields.whole("max_turns", 1, 1000)
    settings = ChatSettings(
        enabled_tools=None if tools is None else tuple(tools),
        max_iterations=ChatSettings().max_iterations if turns is None else min(turns, MOST_TURNS),
        selected_skills=tuple(fields.texts("selected_skills") or ()),
        labels=tuple(fields.texts("labels") or ()),
    )
    agent = Agent(
        fields.text("name") or "",
        description=fields.text("description") or "",
        instructions=matter.body,
        model=fields.text("model"),
        settings=settings,
        source="file",
    )
    return agent, head.problems


class _Fields:
    """The fields of an agent's front matter: each is read, or a finding says why not."""

    def __init__(self, head: Document) -> None:
        self._head = head
        self._values: dict[str, Any] = head.value if isinstance(head.value, dict) else {}

    def check(self) -> None:
        """Note everything that is wrong."""
        head = self._head
        if not isinstance(head.value, dict):
            said = f"the front matter must be a mapping, found {_found(head.value)}"
            head.problem("yaml-not-mapping", said, head.values.get((), _TOP))
            return
        for key in self._values:
            if key not in FIELDS and not key.startswith("x-"):
                self._unknown(key)
        if "name" not in self._values:
            message = 'missing required field "name"'
            head.problem("missing-field", message, _TOP, 'add "name:" at the top of the file')
        elif not NAME.fullmatch(self.text("name") or ""):
            self._wrong("name", "an agent name")
        self.text("description")
        self.text("model")
        for key in LISTS:
            self.texts(key)
        self.whole("max_turns", 1, 1000)

    def check_skills(self, known: Collection[str] | None) -> None:
        """Note every skill that is selected from the start and that there is not."""
        selected = self.texts(SELECTED) or ()
        for number, each in enumerate(selected if known is not None else ()):
            if each in (known or ()):
                continue
            near = nearest(each, known or ())
            said = f'"{each}" in "{SELECTED}" is not a skill of this bundle or a built-in'
            place = self._head.values.get((SELECTED, number), self._place(SELECTED))
            self._head.problem("unknown-skill-ref", said, place, near and f'did you mean "{near}"?')

    def text(self, key: str) -> str | None:
        """Return a text, or None if there is none."""
        value = self._values.get(key)
        if value is None or isinstance(value, str):
            return value
        self._wrong(key, "a model name" if key == "model" else "text")
        return None

    def texts(self, key: str) -> list[str] | None:
        """Return a list of texts, which may also be one text parted by commas."""
        value = self._values.get(key)
        if isinstance(value, str):
            return [each.strip() for each in value.split(",") if each.strip()]
        if value is None or (isinstance(value, list) and all(type(each) is str for each in value)):
            return value
        self._wrong(key, LISTS[key])
        return None

    def whole(self, key: str, low: int, high: int) -> int | None:
        """Return a whole number between two others."""
        value = self._values.get(key)
        if value is None or (type(value) is int and low <= value <= high):
            return value
        self._wrong(key, f"a whole number from {low} to {high}")
        return None

    def _wrong(self, key: str, wanted: str) -> None:
        code = "bad-value" if key in {"name", "max_turns"} else "wrong-type"
        message = f'"{key}" must be {wanted}, found {_found(self._values[key])}'
        finding = Diagnostic(code=code, message=message, file=self._head.file)
        at = self._place(key)
        if not any((p.code, p.message) == (finding.code, message) for p in self._head.problems):
            self._head.problem(code, message, at)

    def _place(self, key: str) -> Place:
        return self._head.values.get((key,), _TOP)

    def _unknown(self, key: str) -> None:
        at, near = self._head.keys[key,], nearest(key, FIELDS)
        self._head.problems.append(
            Diagnostic(
                code="unknown-field",
                message=f'unknown field "{key}" in the agent',
                file=self._head.file,
                line=at.line,
                column=at.column,
                severity=Severity.WARNING,
                suggestion=near and f'did you mean "{near}"?',
            )
        )


def _load(
    path: Path, file: str, skills: Collection[str] | None
) -> tuple[Agent | None, Sequence[Diagnostic]]:
    def refused(code: str, message: str) -> tuple[None, Sequence[Diagnostic]]:
        return None, [Diagnostic(code=code, message=message, file=file)]

    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            return refused(
                "file-too-large", f"the file has {size} bytes; the limit is {MOST_BYTES}"
            )
        return parse_agent(path.read_text(encoding="utf-8"), file, skills)
    except UnicodeDecodeError as error:
        return refused("file-encoding", f"not UTF-8 at byte {error.start}")
    except OSError as error:
        return refused("file-unreadable", f"the file cannot be read: {error.strerror}")


def _again(name: str, file: str, home: str) -> Diagnostic:
    is_same_folder = Path(file).parent == Path(home).parent
    return Diagnostic(
        code="duplicate-agent" if is_same_folder else "hidden",
        message=f'agent "{name}" is defined in {home} already; this file takes no part',
        file=file,
        severity=Severity.ERROR if is_same_folder else Severity.WARNING,
    )


def _found(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "number", float: "number", list: "array"}
    kind = "null" if value is None else names.get(type(value), "object")
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return kind if value is None else f"{kind} {shown[:60]}"
