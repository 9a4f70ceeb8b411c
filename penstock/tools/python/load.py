"""The Python tools of a project: every `tools/*.py`, imported once, with all that is wrong."""

import re
import traceback
from collections.abc import Iterable, Mapping
from dis import opmap
from hashlib import blake2b
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic, Severity, errors_of
from penstock.core.errors import DeclarationError
from penstock.core.late import load_file, open_folder
from penstock.core.text import cut
from penstock.manifest.files import UnreadReason, read_bounded
from penstock.manifest.paths import escape_of
from penstock.tools.python.function import FunctionTool

FOLDER = "tools"
OFF = "python-off"
MESSAGE_CHARACTERS = 500
_MOST_BYTES = 16 << 20
_FUNCTION = re.compile(r"^(?:async )?def (\w+)", re.MULTILINE)
_RAISE = opmap["RAISE_VARARGS"]

PythonTool = FunctionTool[Any, Any]


class LoadedTools(Struct, frozen=True, kw_only=True):
    """The tools of a folder. Broken ones are in `diagnostics` and are not loaded."""

    tools: tuple[PythonTool, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    """What would be a tool but for an error, by id, with the error and its place."""

    @property
    def is_whole(self) -> bool:
        """Whether every tool of the files is among them."""
        lacking = (each for each in self.diagnostics if each.code == OFF)
        return not errors_of(self.diagnostics) and next(lacking, None) is None


def load_tools(
    root: Path, *, reserved: Mapping[str, str] | None = None, is_on: bool = True
) -> LoadedTools:
    """Import the project's Python files, in this process and with all its rights.

    `reserved` are ids that are taken, and what has them. Files that begin with `_` are for the
    others to import, as in `from ._prices import TABLE`.
    """
    files, escapes = _divided(root)
    if not files:
        return LoadedTools(diagnostics=escapes)
    if not is_on:
        return LoadedTools(diagnostics=(*escapes, _off(files, root)))
    package = _package_of(root)
    open_folder(root / FOLDER, package)
    found: dict[str, PythonTool] = {}
    broken: dict[str, str] = {}
    diagnostics: list[Diagnostic] = [*escapes]
    for file in files:
        try:
            module = _import(file, f"{package}.{file.stem}", root)
        except DeclarationError as error:
            diagnostics += error.diagnostics
            broken |= dict.fromkeys(_functions_of(file), _place_of(error.diagnostics[0]))
            continue
        source = _Source(file, root, broken)
        diagnostics += _take(source, module, found, reserved or {})
    return LoadedTools(tools=tuple(found.values()), diagnostics=tuple(diagnostics), broken=broken)


def find_files(root: Path) -> list[Path]:
    """Return the files that are looked into for tools, sorted."""
    return sorted(file for file in (root / FOLDER).glob("*.py") if not file.name.startswith("_"))


def tools_in(module: ModuleType) -> list[PythonTool]:
    """Return the tools that a module defines, in its order; what it imports belongs elsewhere."""
    every = [each for each in vars(module).values() if isinstance(each, FunctionTool)]
    own = [each for each in every if each.__module__ == module.__name__]
    return list(dict.fromkeys(own))


def _divided(root: Path) -> tuple[list[Path], tuple[Diagnostic, ...]]:
    """Return the files that may be imported, and what is said of those that lead out."""
    if escape := escape_of(root, FOLDER):
        return [], (escape,)
    every = [
        (file, escape_of(root, f"{FOLDER}/{file.name}") or _odd(file)) for file in find_files(root)
    ]
    return [file for file, out in every if not out], tuple(out for _, out in every if out)


def _odd(file: Path) -> Diagnostic | None:
    """Return why a name cannot be imported. It is not opened: a pipe would block."""
    read = read_bounded(file, _MOST_BYTES)
    if not isinstance(read, UnreadReason):
        return None
    return Diagnostic(code="python-import", message=read.message, file=f"{FOLDER}/{file.name}")


class _Source:
    """One file of the project."""

    def __init__(self, file: Path, root: Path, broken: dict[str, str]) -> None:
        self.name = file.relative_to(root).as_posix()
        self.broken = broken

    def finding(self, code: str, message: str, line: int = 1) -> Diagnostic:
        """Return a finding in this file."""
        return Diagnostic(code=code, message=message, file=self.name, line=line)


def _take(
    source: _Source,
    module: ModuleType,
    found: dict[str, PythonTool],
    reserved: Mapping[str, str],
) -> Iterable[Diagnostic]:
    """Add the module's tools, and yield the errors of the others."""
    tools = tools_in(module)
    if not tools:
        message = "no function in this file has the decorator @tool; a name with _ is not looked at"
        yield replace(source.finding("python-no-tools", message), severity=Severity.WARNING)
    for tool in tools:
        findings = [replace(each, file=source.name) for each in tool.check()]
        yield from findings
        if errors := errors_of(findings):
            source.broken[str(tool.tool_id)] = _place_of(errors[0])
            continue
        tool_id, line = tool.tool_id, tool.line
        if tool_id in reserved:
            message = f"{tool_id!r} is {reserved[tool_id]} already; give this one another id"
            yield source.finding("builtin-collision", message, line)
        elif tool_id in found:
            message = f"there are two tools {tool_id!r}; the first of them counts"
            yield source.finding("duplicate-tool", message, line)
        else:
            found[tool_id] = tool


def _import(file: Path, name: str, root: Path) -> ModuleType:
    """Return the module. Raises DeclarationError with what the file ran into."""
    try:
        return load_file(file, name)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not _is_raised(error):
            raise
        raise DeclarationError([_broken(error, file, root)]) from error


def _is_raised(error: BaseException) -> bool:
    """Whether code says `raise` where it comes from; Ctrl-C comes anywhere."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_code.co_code[frame.tb_lasti] == _RAISE


def _broken(error: BaseException, file: Path, root: Path) -> Diagnostic:
    place, line = _own_frame(error.__traceback__, root) or (file, 1)
    if isinstance(error, SyntaxError) and error.filename and _is_inside(Path(error.filename), root):
        place, line = Path(error.filename), error.lineno or 1
    said = cut(f"{type(error).__name__}: {error}", MESSAGE_CHARACTERS)
    return Diagnostic(
        code="python-import",
        message=f"the file cannot be imported: {said}",
        file=place.relative_to(root).as_posix(),
        line=line,
        suggestion=f"{_found_elsewhere(error, root)}Its tools are left out; all others work.",
    )


def _found_elsewhere(error: BaseException, root: Path) -> str:
    """Return how to import a module that is in the project, where Python does not look for it."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    name = error.name.partition(".")[0]
    if (root / FOLDER / f"{name}.py").is_file():
        return f"It is beside the file: write `from .{name} import …`. "
    if (root / f"{name}.py").is_file() or (root / name).is_dir():
        return (
            "It is in the project's folder, which is not on Python's path: start penstock with "
            f"PYTHONPATH=., or move it to {FOLDER}/_{name}.py and write `from ._{name} import …`. "
        )
    return ""


def _functions_of(file: Path) -> list[str]:
    """Return the names of functions on top of a file that cannot be imported."""
    try:
        return _FUNCTION.findall(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []


def _place_of(found: Diagnostic) -> str:
    return f"{found.file}:{found.line}: {found.message}"


def _own_frame(trace: TracebackType | None, root: Path) -> tuple[Path, int] | None:
    """Return the innermost place in the project's own files."""
    for frame in reversed(traceback.extract_tb(trace)):
        if _is_inside(Path(frame.filename), root):
            return Path(frame.filename), frame.lineno or 1
    return None


def _is_inside(file: Path, root: Path) -> bool:
    return file.is_relative_to(root / FOLDER)


def _off(files: list[Path], root: Path) -> Diagnostic:
    number = "1 file is" if len(files) == 1 else f"{len(files)} files are"
    return Diagnostic(
        code=OFF,
        message=f"{number} there, but Python tools are off",
        file=files[0].relative_to(root).as_posix(),
        severity=Severity.WARNING,
        suggestion="Set python = true under [tools] in penstock.toml to let them run.",
    )


def _package_of(root: Path) -> str:
    digest = blake2b(str(root).encode(), digest_size=6).hexdigest()
    return f"penstock_project_{digest}"
