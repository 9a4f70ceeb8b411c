"""Writes the parts of docs/ that follow from the code; `--check` says which are out of date."""

import ast
import inspect
import json
import logging
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_args

from msgspec import Struct
from pydantic import BaseModel
from typer import Context

from penstock.agents import agent_fields
from penstock.agents.agent import ChatSettings
from penstock.agents.agent_fields import LenientRecord
from penstock.agents.agent_settings import AgentSettings, RequestSettings
from penstock.app.runtime import Runtime
from penstock.app.settings import Settings
from penstock.app.settings_sections import ModelEntry, NotificationEntry, RuleEntry
from penstock.chat.python.run_events import Row, RunEvents
from penstock.cli.main import COMMANDS, root
from penstock.core import call_errors as answered
from penstock.core import errors
from penstock.core.events.codec import kind_of
from penstock.core.events.events import Event, QuestionAnswered
from penstock.core.events.roles import is_outside
from penstock.core.limits import Limits
from penstock.manifest import permissions, prompts, skill, tool
from penstock.manifest.fields import Field as ManifestField
from penstock.manifest.kinds import ListOf, RecordKind
from penstock.manifest.schedules import schedule
from penstock.server.application import create_application
from penstock.server.problem import problem
from scripts import flo_page, flow_pictures, limits_page, models_page, recipes_page, tool_page
from scripts.written import docstrings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "penstock"
BLOCK = re.compile(r"(<!-- begin: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
WIDTH = 100
_TELLING = (errors.DeclarationError, errors.InvalidRequest, errors.InvalidAnswer)
Raised = TypeVar("Raised", bound=errors.PenstockError)
Rows = Iterator[Sequence[str]]
NO_ROW = Row()


def main() -> int:
    """Bring every page up to date, or say which is not."""
    logging.disable()  # the sample errors of the pages would be logged as real ones
    is_check = "--check" in sys.argv
    stale = [page for page in sorted(DOCS.rglob("*.md")) if not is_current(page, is_check=is_check)]
    stale += flow_pictures.stale(is_check=is_check)
    for page in stale:
        said = "is out of date: run `make docs`" if is_check else "written"
        print(f"{page.relative_to(ROOT)}: {said}")
    return int(is_check and bool(stale))


def is_current(page: Path, *, is_check: bool) -> bool:
    """Whether the generated parts of a page are what the code says; else write them."""
    text = page.read_text(encoding="utf-8")
    wanted = BLOCK.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}\n{found[3]}", text)
    if not is_check and text != wanted:
        page.write_text(wanted, encoding="utf-8")
    return text == wanted


def table(columns: Sequence[str], rows: Rows) -> str:
    """Return a table of Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def sentence(thing: Any) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def code(text: object) -> str:
    """Return a text as code."""
    return f"`{text}`"


# ---- errors --------------------------------------------------------------------------------------


def door_errors() -> str:
    """Return what a door answers with."""
    return table(("code", "HTTP", "class", "means"), _door_errors())


def _door_errors() -> Rows:
    for error in _classes(errors, errors.PenstockError):
        make: Callable[..., errors.PenstockError] = error
        answer = problem(make([]) if issubclass(error, _TELLING) else make(), "")
        told: str = json.loads(bytes(answer.body))["error"]["code"]
        status = str(answer.status_code) + ("" if told == error.code else f" {code(told)}")
        yield code(error.code), status, code(error.__name__), sentence(error)


def call_errors() -> str:
    """Return what a call ends with."""
    columns = ("code", "status", "retryable", "continuable", "class", "means")
    return table(columns, _call_errors())


def _call_errors() -> Rows:
    for error in _classes(answered, answered.CallError)[1:]:
        flags = ("yes" if flag else "no" for flag in (error.retryable, error.continuable))
        status = code(error.status.value)
        yield code(error.code), status, *flags, code(error.__name__), sentence(error)


def _classes(module: ModuleType, root: type[Raised]) -> list[type[Raised]]:
    own = [
        each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__
    ]
    return [each for each in own if isinstance(each, type) and issubclass(each, root)]


# ---- events --------------------------------------------------------------------------------------


def events() -> str:
    """Return every event with its members, and what readers get for it."""
    columns = ("kind", "from", "means", "members", "a Run yields", "frames")
    return table(columns, _events())


def _events() -> Rows:
    for event in get_args(Event):
        raw: Any = event(**dict.fromkeys(event.__struct_fields__))
        members = ", ".join(code(name) for name in event.__struct_fields__)
        outside = event is QuestionAnswered or is_outside(raw)
        row = RunEvents.table.get(event, NO_ROW)
        public = ", ".join(code(kind.__name__) for kind in row.public)
        frames = ", ".join(map(code, row.frames))
        origin = "outside" if outside else "holder"
        yield code(kind_of(raw)), origin, sentence(event), members, public, frames


# ---- settings ------------------------------------------------------------------------------------


def settings() -> str:
    """Return every key of penstock.toml but the limits."""
    return table(("key", "type", "default", "means"), _settings(Settings, ""))


def _settings(model: type[BaseModel], section: str) -> Rows:
    for name, field in model.model_fields.items():
        inner = SECTIONS.get(name) or field.annotation
        if name == "limits" or inner is Limits:
            continue
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _settings(inner, f"{section}{PREFIXES.get(name, name)}.")
            continue
        kind = _kind(field.annotation)
        default = (
            "" if field.is_required() else code(_toml(field.get_default(call_default_factory=True)))
        )
        meaning = (field.description or "").replace("\n", " ")
        yield code(f"{section}{name}"), kind, default, meaning
    if model.model_config.get("extra") == "allow":
        yield from _settings(ModelEntry, f"{section}NAME.")


SECTIONS: Mapping[str, Any] = {"rules": RuleEntry, "notifications": NotificationEntry}
PREFIXES = {"rules": "rules[]", "notifications": "notifications.NAME"}


def limits() -> str:
    """Return every limit."""
    return table(("key", "type", "default", "means"), _fields(Limits, "limits."))


def chat_settings() -> str:
    """Return every setting of an agent."""
    return table(("key", "type", "default", "means"), _fields(ChatSettings, ""))


def _fields(cls: Any, section: str) -> Rows:
    said = docstrings(cls)
    usual = cls()
    for name, kind in cls.__annotations__.items():
        value = code(_toml(getattr(usual, name)))
        yield code(f"{section}{name}"), _kind(kind), value, said.get(name, "")


KINDS = (
    (r"typing\.|pathlib\.|collections\.abc\.| \| None", ""),
    (r"tuple\[str, \.\.\.\]", "list of texts"),
    (r"tuple\[[\w.]+Entry, \.\.\.\]", "list of tables"),
    (r"dict\[.*\]", "table"),
    (r"\bstr\b", "text"),
    (r"\bint\b", "whole number"),
    (r"\bfloat\b", "number"),
    (r"\bbool\b", "true or false"),
    (r"\bPath\b", "folder"),
    (r"Literal\[([^]]*)\]", r"one of \1"),
    (r"tuple\[one of (.*), \.\.\.\]", r"list of \1"),
    (r"Union\[(.*), one of (.*)\]", r"\1, or \2"),
    (r"Optional\[(.*)\]", r"\1"),
    (r"\bpydantic\.types\.SecretStr\b|\bSecretStr\b", "text"),
)


def _kind(annotation: Any) -> str:
    """Return a type in the terms of TOML."""
    text = annotation.__name__ if type(annotation) is type else str(annotation)
    for pattern, word in KINDS:
        text = re.sub(pattern, word, text)
    return text.replace("'", "")


def _toml(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return "{}"
        case int() | float():
            return f"{value:,}" if value >= 10_000 else str(value)  # noqa: PLR2004  easier to read
        case _:
            return f'"{value}"'


# ---- routes and commands -------------------------------------------------------------------------


def routes() -> str:
    """Return every route with its sentence."""
    return table(("method", "path", "does"), _routes())


def _routes() -> Rows:
    paths: Mapping[str, Any] = create_application(_closed).openapi()["paths"]
    for path, methods in sorted(paths.items()):
        for method, route in methods.items():
            does = route.get("description", route.get("summary", ""))
            yield code(method.upper()), code(path), does.partition("\n")[0]


def _closed() -> AbstractAsyncContextManager[Runtime]:
    """Stand in for a runtime: only the routes are asked for."""
    raise RuntimeError("the pages are made of the routes: no runtime is opened for them")


def commands() -> str:
    """Return every command as its own help."""
    return "\n\n".join(_commands())


def _commands() -> Iterator[str]:
    group: Any = root()
    top = Context(group, info_name="penstock", terminal_width=WIDTH)
    for row in COMMANDS:
        _, command, _ = group.resolve_command(top, [row.name])
        here = Context(command, info_name=row.name, parent=top, terminal_width=WIDTH)
        yield f"## penstock {row.name}\n\n```text\n{command.get_help(here)}\n```"
        for name, each in getattr(command, "commands", {}).items():
            below = Context(each, info_name=name, parent=here, terminal_width=WIDTH)
            yield f"```text\n{each.get_help(below)}\n```"


# ---- the tree ------------------------------------------------------------------------------------


def tree() -> str:
    """Return every package from the top layer down, with the sentence of each file."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    rows = contracts["contracts"][0]["layers"]
    names = [name for row in rows for name in re.split(r"[\s|()]+", row) if name != "__main__"]
    return "\n\n".join(_package(name) for name in names)


def _package(name: str) -> str:
    pages = (f"packages/{name}.md", f"{name}.md")
    page = next((each for each in pages if (DOCS / each).exists()), None)
    head = name if page is None else f"[{name}]({page})"
    rows = "\n".join(_files(SOURCE / name))
    return f"### {head}\n\n{_first(SOURCE / name / '__init__.py')}\n\n{rows}".rstrip()


def _files(folder: Path, indent: str = "") -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if (first := path / "__init__.py").exists():
            yield f"{indent}- `{path.name}/`: {_first(first)}"
            yield from _files(path, f"{indent}  ")
        elif path.suffix == ".py" and path.name != "__init__.py":
            yield f"{indent}- `{path.stem}`: {_first(path)}"


def _first(path: Path) -> str:
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0]


# ---- manifests -----------------------------------------------------------------------------------


def tool_fields() -> str:
    """Return every field of a tool manifest."""
    return table(MANIFEST_COLUMNS, _manifest(tool.FIELDS, ""))


def skill_fields() -> str:
    """Return every field of a skill manifest."""
    return table(MANIFEST_COLUMNS, _manifest(skill.FIELDS, ""))


def permission_fields() -> str:
    """Return every field of a permissions manifest."""
    return table(MANIFEST_COLUMNS, _manifest(permissions.FIELDS, ""))


def schedule_fields() -> str:
    """Return every field of a schedule manifest."""
    return table(MANIFEST_COLUMNS, _manifest(schedule.FIELDS, ""))


def prompt_fields() -> str:
    """Return every field of a prompts manifest."""
    return table(MANIFEST_COLUMNS, _manifest(prompts.FIELDS, ""))


def agent_file_fields() -> str:
    """Return every field of an agent file."""
    return table(MANIFEST_COLUMNS, _manifest(agent_fields.FIELDS, ""))


MANIFEST_COLUMNS = ("field", "must be", "default", "means")


def _manifest(fields: Sequence[ManifestField], section: str) -> Rows:
    for each in fields:
        default = "**must be there**" if each.required else _default(each.default)
        yield code(f"{section}{each.key}"), each.kind.expected, default, each.meaning
        inner, mark = each.kind, "."
        if isinstance(inner, ListOf):
            inner, mark = inner.item, "[]."
        if isinstance(inner, RecordKind | LenientRecord | AgentSettings | RequestSettings):
            yield from _manifest(inner.fields, f"{section}{each.key}{mark}")


def _default(value: Any) -> str:
    if value is None or isinstance(value, Struct):
        return ""
    return code("[]" if value == () else value if type(value) is int else _toml(value))


PARTS: Mapping[str, Callable[[], str]] = {
    "door-errors": door_errors,
    "call-errors": call_errors,
    "events": events,
    "settings": settings,
    "limits": limits,
    "providers": lambda: table(("provider", "needs", "key"), models_page.providers()),
    "chat-settings": chat_settings,
    "routes": routes,
    "commands": commands,
    "tree": tree,
    "agent-fields": agent_file_fields,
    "tool-fields": tool_fields,
    "built-in-tools": tool_page.built_in_tools,
    "tool-options": tool_page.tool_options,
    "context-members": tool_page.context_members,
    "flo": flo_page.flo,
    "flo-types": flo_page.types,
    "script-limits": lambda: limits_page.script_limits(_fields(Limits, "limits.")),
    "recipes": recipes_page.recipes,
    "recipe-killed": recipes_page.killed,
    "recipe-sizes": recipes_page.sizes,
    "skill-fields": skill_fields,
    "permission-fields": permission_fields,
    "prompt-fields": prompt_fields,
    "schedule-fields": schedule_fields,
}

if __name__ == "__main__":
    sys.exit(main())
