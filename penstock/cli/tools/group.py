"""The commands of `penstock tools`: list the tools, and show one with its schemas."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import asdict, replace

from penstock.agents.agent import Agent
from penstock.agents.catalog import Catalog
from penstock.agents.tool_offer import TaskOffers, caller_for, offered
from penstock.app.project import Project
from penstock.app.settings import Settings
from penstock.builtins.families import family_of
from penstock.cli.completion import agents as every_agent
from penstock.cli.completion import every_tool
from penstock.cli.options import ProjectFolder, SkillNames, taking
from penstock.cli.project import ReadProject, find, findings_of, print_findings
from penstock.cli.terminal.output import AsJson, note, pretty, print_json, say
from penstock.cli.terminal.render import print_table
from penstock.core.call import Origin
from penstock.core.ids import ASSISTANT, LogId
from penstock.core.text import count
from penstock.engine.session_state import SessionState
from penstock.manifest.document import SourceRange
from penstock.manifest.tool import ToolLimits, ToolManifest
from penstock.models.model import ToolDefinition, tool_tokens
from penstock.tools.policy import SCRIPT, Caller, RuleSet, find_grant, find_refusal, grants
from penstock.tools.python.agent_tool import agents_by_name
from penstock.tools.python.function import FunctionTool
from penstock.tools.python.load import FOLDER
from penstock.tools.scripts.script import ScriptTool
from penstock.tools.skills import Skills, TaskSkills
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Registry, Tool

ToolName = Annotated[
    str, typer.Argument(metavar="TOOL", help="The tool's id.", autocompletion=every_tool)
]
Root = Annotated[
    str | None,
    typer.Option(
        "--root", metavar="TOOL", help="Assume that a script in a direct call of this tool calls."
    ),
]
From = Annotated[
    Origin | None, typer.Option("--origin", help="The origin of the call. Default: show all.")
]


def show_grants(
    tool: ToolName,
    *,
    skill: SkillNames = None,
    root: Root = None,
    origin: From = None,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show which callers may use a tool, and why."""
    read = find(project).project
    print_findings(read, tool)
    registry = Registry(read.every_tool)
    spec = registry.get(tool).spec
    caller = _caller(read, registry, skill or (), root)
    origins = [origin] if origin else list(Origin)
    parts = [_part(spec, replace(caller, origin=each)) for each in origins]
    if as_json:
        print_json({"tool": tool, "skills": list(caller.selection.skills), "origins": parts})
        return
    rows = [
        (part["origin"], name, "yes" if holds else "no", "")
        for part in parts
        for name, holds in part["grants"].items()
    ]
    verdicts = [(part["origin"], "verdict", "", part["verdict"]) for part in parts]
    print_table(("origin", "grant", "holds", "verdict"), [*rows, *verdicts])
    note(f"selected skills: {', '.join(caller.selection.skills) or 'none'}")


def _caller(
    project: Project, registry: Registry, selected: Sequence[str], root: str | None
) -> Caller:
    """Return the caller to check: the assistant's model, or a script that it runs."""
    skills = Skills(project.every_skill)
    own = [each.settings.enabled_tools for each in project.agents if each.name == ASSISTANT]
    names = own[0] if own else None
    offered = {each.spec.tool_id for each in registry if each.spec.is_offered}
    return Caller(
        origin=Origin.MODEL,
        agent_tools=frozenset(offered if names is None else names),
        selection=skills.select(skills.get(each).skill_id for each in selected),
        root=None if root is None else registry.get(root).spec,
        calling_tool=root or "a script",
        calling_kind=SCRIPT,
    )


def _part(spec: ToolSpec, caller: Caller) -> dict[str, Any]:
    refusal = find_refusal(spec, caller)
    return {
        "origin": caller.origin.value,
        "grants": dict(grants(spec, caller)),
        "verdict": refusal.code if refusal else find_grant(spec, caller),
        "message": str(refusal) if refusal else None,
    }


State = Annotated[
    bool | None,
    typer.Option(
        "--direct/--broken",
        help="Only tools that `penstock call` can call, or only tools with errors.",
    ),
]
Builtin = Annotated[bool, typer.Option("--builtin", help="Only built-in tools.")]
OfSkill = Annotated[
    str | None, typer.Option("--skill", metavar="ID", help="Only tools that this skill grants.")
]
Label = Annotated[
    str | None, typer.Option("--label", metavar="LABEL", help="Only tools with this label.")
]
Offered = Annotated[
    str | None,
    typer.Option(
        "--offered",
        metavar="AGENT",
        help="Only tools that the model of this agent is offered in a chat, with their tokens.",
        autocompletion=every_agent,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """Options of `penstock tools list`."""

    skill: OfSkill = None
    label: Label = None
    state: State = None
    builtin: Builtin = False
    offered: Offered = None
    project: ProjectFolder = None
    as_json: AsJson = False


@taking(ListOptions)
def list_tools(options: ListOptions) -> None:
    """List the tools of the project and the built-in tools."""
    read = find(options.project)
    print_findings(read.project)
    granted = None if options.skill is None else _granted(read.project, options.skill)
    tools = [each for each in read.project.every_tool if _is_wanted(each.spec, options, granted)]
    if options.offered is not None:
        _list_offered(read, options.offered, tools, as_json=options.as_json)
        return
    manifests = _manifests(read.project)
    places = [_place(each, manifests) for each in tools]
    if options.as_json:
        parts = zip(tools, places, strict=True)
        print_json({"tools": [spec_part(each.spec) | {"defined": at} for each, at in parts]})
        return
    rows = [
        (each.spec.tool_id, each.spec.kind, effect_text(each.spec), at, _flags(each.spec))
        for each, at in zip(tools, places, strict=True)
    ]
    print_table(("tool", "kind", "effect", "defined", "flags"), rows)
    note(count(len(tools), "tool"))


def show_tool(tool: ToolName, *, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """Show a tool: its schemas, effect and limits, with defaults filled in."""
    read = find(project)
    read_project = read.project
    chosen = Registry(read_project.every_tool).get(tool)
    manifests = _manifests(read_project)
    part = spec_part(chosen.spec) | {"defined": _place(chosen, manifests)}
    manifest, findings = manifests.get(tool), findings_of(read_project, tool)
    is_whole = isinstance(chosen, ScriptTool) and manifest is not None
    print_findings(read_project, tool, reported=findings if is_whole else ())
    if isinstance(chosen, ScriptTool) and manifest is not None:
        part |= {
            "manifest": _plain(_filled_in(manifest, read.settings)),
            "modules": list(chosen.modules),
            "diagnostics": [each.to_wire() for each in findings],
        }
    if as_json:
        print_json(part)
    else:
        say(pretty(part))


class ProjectTools(Struct, frozen=True, kw_only=True):
    """The tools and rules of a project that was read but not opened."""

    registry: Registry
    rules: RuleSet


COMMANDS = {"list": list_tools, "show": show_tool, "grants": show_grants}


def effect_text(spec: ToolSpec) -> str:
    """Return the effect of a tool, and whether it is the one of tools that declare none."""
    return f"{spec.effect.value} (default)" if spec.has_default_effect else spec.effect.value


def spec_part(spec: ToolSpec) -> dict[str, Any]:
    """Return the public face of a tool as JSON."""
    return {
        "id": spec.tool_id,
        "kind": spec.kind,
        "description": spec.description,
        "effect": spec.effect.value,
        "effect_is_default": spec.has_default_effect,
        "idempotent": spec.idempotent,
        "direct_call": spec.direct_call,
        "broken": spec.is_broken,
        "requires_approval": spec.requires_approval,
        "requires_permissions": sorted(spec.requires_permissions),
        "timeout_ms": spec.timeout_ms,
        "labels": list(spec.labels),
        "input_schema": spec.input_schema,
        "output_schema": spec.output_schema,
    }


def _granted(project: Project, skill_id: str) -> frozenset[str]:
    """Return the tools that a skill and its required skills grant. Raises NotFound."""
    skills = Skills(project.every_skill)
    selection = skills.select([skills.get(skill_id).skill_id])
    return selection.tools | selection.inline | selection.script_tools


def _is_wanted(spec: ToolSpec, options: ListOptions, granted: Collection[str] | None) -> bool:
    if options.builtin and spec.kind != "builtin":
        return False
    if options.state is not None:
        is_callable = spec.direct_call and not spec.is_broken
        if not (is_callable if options.state else spec.is_broken):
            return False
    is_granted = granted is None or spec.tool_id in granted
    return is_granted and (options.label is None or options.label in spec.labels)


def _list_offered(read: ReadProject, name: str, among: Sequence[Tool], *, as_json: bool) -> None:
    """Show the tools in the first request of a chat with an agent, built by the code of chats."""
    agents = Catalog()
    agents.replace_files(read.project.agent_files)
    agent, every = agents.get(name), read.project.every_tool
    ids = {each.spec.tool_id for each in every}
    inner = [*agents_by_name(agent.profile.tools, ids, agents.get)]
    shelf = ProjectTools(
        registry=Registry([*every, *inner]),
        rules=RuleSet(entry.rule() for entry in read.settings.rules),
    )
    definitions = _at_start(agent, read, shelf)
    kinds = {each.spec.tool_id: each.spec.kind for each in among}
    if len(among) == len(every):  # otherwise the person asks for tools of a kind
        kinds |= {each.spec.tool_id: "agent" for each in inner}
    rows = [
        (tool.name, kinds[tool.name], _family(tool), tool_tokens(tool))
        for tool in definitions
        if tool.name in kinds
    ]
    columns, total = ("tool", "kind", "family", "tokens"), sum(row[3] for row in rows)
    if as_json:
        tools = [dict(zip(("id", *columns[1:]), row, strict=True)) for row in rows]
        print_json({"agent": name, "tools": tools, "tokens": total})
        return
    print_table(columns, [(*row[:3], str(row[3])) for row in rows])
    note(f"{count(len(rows), 'tool')}, about {total:,} tokens of every request to the model")


def _family(tool: ToolDefinition) -> str:
    return (family_of(tool.name) or "core") if tool.is_builtin else ""


def _at_start(agent: Agent, read: ReadProject, shelf: ProjectTools) -> Sequence[ToolDefinition]:
    profile, state = read.settings.local.profile, SessionState(LogId(""))
    skills = Skills(read.project.every_skill, read.settings.root)
    fixed = [each.spec.tool_id for each in offered(agent, shelf, profile)]
    choice = agent.settings.skill_choice
    task = TaskSkills(skills, state, lambda: choice, profile=profile)
    caller = caller_for(agent, profile, fixed, task)
    has_tools = agent.settings.tools_enabled
    offers = TaskOffers(agent, shelf, caller, fixed=fixed if has_tools else None)
    return offers.at(()).definitions


def _flags(spec: ToolSpec) -> str:
    flags = {
        "direct": spec.direct_call,
        "asks": spec.requires_approval is not False,
        "idempotent": spec.idempotent,
        "global": spec.is_global,
        "broken": spec.is_broken,
    }
    return " ".join(name for name, is_set in flags.items() if is_set)


def _manifests(project: Project) -> dict[str, ToolManifest]:
    return {each.tool_id: each for each in project.bundle.every_tool}


def _filled_in(manifest: ToolManifest, settings: Settings) -> ToolManifest:
    """Return a manifest with the project's defaults for omitted limits and egress."""
    limits = settings.limits
    own = {name: each for name, each in asdict(manifest.limits).items() if each is not None}
    usual = {
        "memory_mb": limits.script_memory_mb,
        "nested_calls": limits.nested_calls,
        "log_bytes": limits.log_bytes,
    }
    egress = settings.egress.default if manifest.egress is None else manifest.egress
    return replace(
        manifest,
        timeout_ms=manifest.timeout_ms or limits.timeout_ms,
        egress=egress,
        limits=ToolLimits(**(usual | own)),
    )


def _place(tool: Tool, manifests: Mapping[str, ToolManifest]) -> str:
    """Return the file and line of a tool's definition."""
    if isinstance(tool, FunctionTool):
        name = tool.__module__.rpartition(".")[2]
        return f"{FOLDER}/{name}.py:{tool.line}"
    manifest = manifests.get(tool.spec.tool_id) if tool.spec.kind == SCRIPT else None
    return f"{manifest.file}:{manifest.line}" if manifest else "penstock"


def _plain(value: Any) -> Any:
    """Return a manifest as JSON."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Struct):
        return {name: _plain(each) for name, each in asdict(value).items()}
    if isinstance(value, SourceRange):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(_plain(each) for each in value)
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value
