"""Settings about tools: global tools, families of built-in tools; and checks of reverts."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from penstock.builtins.families import (
    FAMILIES,
    ProjectFeatures,
    family_of,
    why_partial,
    why_useless,
)
from penstock.core.diagnostics import Diagnostic, Severity, nearest
from penstock.manifest.bundle import Bundle
from penstock.manifest.fields import quoted
from penstock.manifest.references import MCP
from penstock.tools.python.function import FunctionTool
from penstock.tools.python.load import FOLDER
from penstock.tools.tool import Tool, revert_problems, with_spec

KEY = "global_tools"
FAMILY_KEY = "builtin"


def with_global_tools(tools: Iterable[Tool], chosen: Collection[str]) -> tuple[Tool, ...]:
    """Return the tools, with the chosen ones made global."""
    return tuple(_global(each) if each.spec.tool_id in chosen else each for each in tools)


def check_global_tools(
    chosen: Iterable[str], known: Collection[str], file: Path
) -> Iterator[Diagnostic]:
    """Yield a finding for each chosen id that does not exist; `file` is penstock.toml."""
    for tool_id in chosen:
        if tool_id not in known and not tool_id.startswith(MCP):
            near = nearest(tool_id, known)
            yield Diagnostic(
                code="unknown-tool-ref",
                message=f'{quoted(tool_id)} in "{KEY}" is not a tool of this project or a built-in',
                file=file.name,
                line=_line(file, KEY),
                suggestion=near and f'did you mean "{near}"?',
            )


def check_reverts(
    tools: Sequence[Tool], provided: Sequence[Tool], bundle: Bundle
) -> Iterator[Diagnostic]:
    """Yield a finding for each tool of the files whose revert does not exist or does not fit."""
    known = {each.spec.tool_id: each for each in (*provided, *tools)}
    for tool, message in revert_problems(tools, known):
        if isinstance(tool, FunctionTool):
            file, line = f"{FOLDER}/{tool.__module__.rpartition('.')[2]}.py", tool.line
        elif (manifest := bundle.tools.get(tool.spec.tool_id)) and tool.spec.revert in known:
            file, line = manifest.file, manifest.line
        else:
            continue  # the manifest has a finding already
        yield Diagnostic(code="revert", message=message, file=file, line=line)


def _global(tool: Tool) -> Tool:
    return with_spec(tool, replace(tool.spec, is_global=True, is_offered=True))


def check_families(
    chosen: Iterable[str], features: ProjectFeatures, file: Path
) -> Iterator[Diagnostic]:
    """Yield a finding for each family that does not exist or has no effect."""
    for family in chosen:
        subject = f'{quoted(family)} in "{FAMILY_KEY}" of [tools]'
        line = _line(file, FAMILY_KEY)
        if family not in FAMILIES:
            yield Diagnostic(
                code="unknown-tool-family",
                message=f"{subject} is not a family of built-in tools",
                file=file.name,
                line=line,
                suggestion=_suggestion(family),
            )
        elif why := _why_incomplete(family, features):
            yield Diagnostic(
                code="useless-tool-family",
                message=f"{subject} {why}",
                file=file.name,
                line=line,
                severity=Severity.WARNING,
            )


def _why_incomplete(family: str, features: ProjectFeatures) -> str:
    if why := why_useless(family, features):
        return f"offers nothing: {why}"
    why = why_partial(family, features)
    return why and f"offers only some of its tools: {why}"


def _suggestion(family: str) -> str:
    if home := family_of(family):
        return f'it is a tool of the family "{home}"'
    near = nearest(family, FAMILIES)
    return f'did you mean "{near}"?' if near else f"there are {', '.join(FAMILIES)}"


def _line(file: Path, key: str) -> int:
    """Return the line of the key; 1 if a variable or the program sets it."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else ()
    return next(
        (number for number, line in enumerate(lines, 1) if line.lstrip().startswith(key)), 1
    )
