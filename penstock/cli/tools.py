"""Tools: which there are, and what each wants."""

from typing import Annotated, Any

import typer

from penstock.builtins import TOOLS
from penstock.cli.options import AsJson, ProjectFolder
from penstock.cli.output import note, print_json
from penstock.cli.project import find
from penstock.cli.render import clean, pretty, print_table
from penstock.core.text import cut, one_line
from penstock.tools.registry import Registry
from penstock.tools.spec import ToolSpec

ToolName = Annotated[str, typer.Argument(metavar="TOOL", help="Which tool.")]
Direct = Annotated[bool, typer.Option("--direct", help="Only those that `penstock call` may call.")]
_MOST_DESCRIPTION = 70


def list_tools(
    *, direct: Direct = False, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """List the tools of the project, and the built-in ones."""
    found = [*TOOLS, *find(project).project.tools]
    specs = [each.spec for each in found if each.spec.direct_call or not direct]
    if as_json:
        print_json({"tools": [spec_part(spec) for spec in specs]})
        return
    rows = [
        (
            spec.tool_id,
            spec.kind,
            spec.effect.value,
            _flags(spec),
            cut(one_line(spec.description), _MOST_DESCRIPTION),
        )
        for spec in specs
    ]
    print_table(("tool", "kind", "effect", "flags", "description"), rows)
    note(f"{len(specs)} tools")


def show_tool(tool: ToolName, *, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """Show what a tool wants and gives, with defaults filled in."""
    spec = Registry([*TOOLS, *find(project).project.tools]).get(tool).spec
    if as_json:
        print_json(spec_part(spec))
    else:
        print(clean(pretty(spec_part(spec))))


COMMANDS = {"list": list_tools, "show": show_tool}


def spec_part(spec: ToolSpec) -> dict[str, Any]:
    """Return the public face of a tool as JSON."""
    return {
        "id": spec.tool_id,
        "kind": spec.kind,
        "description": spec.description,
        "effect": spec.effect.value,
        "idempotent": spec.idempotent,
        "direct_call": spec.direct_call,
        "requires_approval": spec.requires_approval,
        "requires_permissions": sorted(spec.requires_permissions),
        "timeout_ms": spec.timeout_ms,
        "labels": list(spec.labels),
        "input_schema": spec.input_schema,
        "output_schema": spec.output_schema,
    }


def _flags(spec: ToolSpec) -> str:
    flags = {
        "direct": spec.direct_call,
        "asks": spec.requires_approval is not False,
        "idempotent": spec.idempotent,
    }
    return " ".join(name for name, is_set in flags.items() if is_set)
