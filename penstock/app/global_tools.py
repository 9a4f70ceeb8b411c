"""The tools that `global_tools` names: every model and every script may call them."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic, nearest
from penstock.manifest.fields import quoted
from penstock.manifest.references import MCP
from penstock.tools.tool import Tool

KEY = "global_tools"


def with_global_tools(tools: Iterable[Tool], chosen: Collection[str]) -> tuple[Tool, ...]:
    """Return the tools, those that are chosen as global ones."""
    return tuple(_global(each) if each.spec.tool_id in chosen else each for each in tools)


def check_global_tools(
    chosen: Iterable[str], known: Collection[str], file: Path
) -> Iterator[Diagnostic]:
    """Yield a finding for each id that is chosen in vain; `file` is where settings stand."""
    for each in chosen:
        if each not in known and not each.startswith(MCP):
            near = nearest(each, known)
            yield Diagnostic(
                code="unknown-tool-ref",
                message=f'{quoted(each)} in "{KEY}" is not a tool of this project or a built-in',
                file=file.name,
                line=_line(file),
                suggestion=near and f'did you mean "{near}"?',
            )


def _global(tool: Tool) -> Tool:
    spec = replace(tool.spec, is_global=True, is_offered=True)
    if isinstance(tool, Struct):
        return replace(tool, spec=spec)
    if dataclasses.is_dataclass(tool) and not isinstance(tool, type):
        return dataclasses.replace(tool, spec=spec)
    made: Any = copy(tool)
    made.spec = spec
    found: Tool = made
    return found


def _line(file: Path) -> int:
    """Return where the key stands; the first line where a variable or a program says it."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else ()
    return next((at for at, line in enumerate(lines, 1) if line.lstrip().startswith(KEY)), 1)
