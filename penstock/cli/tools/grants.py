"""Shows which callers may use a tool: every possible grant, whether it holds, and the verdict."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from penstock.app.project import Project
from penstock.cli.arguments.completion import every_tool
from penstock.cli.arguments.options import AsJson, ProjectFolder, SkillNames
from penstock.cli.arguments.project import find
from penstock.cli.terminal.findings import tell_findings
from penstock.cli.terminal.output import note, print_json
from penstock.cli.terminal.render import print_table
from penstock.core.call import Origin
from penstock.core.ids import ASSISTANT
from penstock.tools.grants import Skills
from penstock.tools.policy import SCRIPT, Caller, find_grant, grants, refused
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Registry

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
    found = find(project).project
    tell_findings(found, tool)
    registry = Registry(found.every_tool)
    spec = registry.get(tool).spec
    caller = _caller(found, registry, skill or (), root)
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
        inside=root or "a script",
        inside_kind=SCRIPT,
    )


def _part(spec: ToolSpec, caller: Caller) -> dict[str, Any]:
    refusal = refused(spec, caller)
    return {
        "origin": caller.origin.value,
        "grants": dict(grants(spec, caller)),
        "verdict": refusal.code if refusal else find_grant(spec, caller),
        "message": str(refusal) if refusal else None,
    }
