"""Loads the Python tools of a project: imports every `tools/*.py` once, and reports all errors.

A broken file or tool is left out with a Diagnostic, and all others work. Importing runs the
author's code in this process with all its rights, so files that lead out of the project are not
imported, and an operator can switch Python tools off. Proof: `tests/tools/python/test_load.py`.
"""

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
_MAX_BYTES = 16 << 20
_FUNCTION = re.compile(r"^(?:async )?def (\w+)", re.MULTILINE)
_RAISE = opmap["RAISE_VARARGS"]

PythonTool = FunctionTool[Any, ..., Any]


class LoadedTools(Struct, frozen=True, kw_only=True):
    """The tools of a folder. Broken ones are in `diagnostics` and are not loaded."""

    tools: tuple[PythonTool, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    """Tools that an error keeps out, by id, with the error and its place."""

    @property
    def is_whole(self) -> bool:
        """Whether every tool of the files was loaded."""
        is_off = any(each.code == OFF for each in self.diagnostics)
        return not errors_of(self.diagnostics) and not is_off


def load_tools(
    root: Path, *, reserved: Mapping[str, str] | None = None, is_on: bool = True
) -> LoadedTools:
    """Import the project's Python files in this process, with all its rights.

    `reserved` has the ids that are taken, and by what. Files that begin with `_` are modules that
    the others import, as in `from ._prices import TABLE`.
    """
    files, escapes = _divided(root)
    if not files:
        return LoadedTools(diagnostics=escapes)
    if not is_on:
        return LoadedTools(diagnostics=(*escapes, _off(files, root)))
    package = _package_of(root)
    open_folder(root / FOLDER, package)
    loaded: dict[str, PythonTool] = {}
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
        diagnostics += _take(source, module, loaded, reserved or {})
    return LoadedTools(tools=tuple(loaded.values()), diagnostics=tuple(diagnostics), broken=broken)


def find_files(root: Path) -> list[Path]:
    """Return the files that may define tools, sorted."""
    return sorted(file for file in (root / FOLDER).glob("*.py") if not file.name.startswith("_"))


def tools_in(module: ModuleType) -> list[PythonTool]:
    """Return the tools that a module defines, in its order, without those that it imports."""
    every = [each for each in vars(module).values() if isinstance(each, FunctionTool)]
    own = [each for each in every if each.__module__ == module.__name__]
    return list(dict.fromkeys(own))


def _divided(root: Path) -> tuple[list[Path], tuple[Diagnostic, ...]]:
    """Return the files that may be imported, and the errors of the others."""
    if escape := escape_of(root, FOLDER):
        return [], (escape,)
    every = [
        (file, escape_of(root, f"{FOLDER}/{file.name}") or _odd(file)) for file in find_files(root)
    ]
    return [file for file, out in every if not out], tuple(out for _, out in every if out)


def _odd(file: Path) -> Diagnostic | None:
    """Return why a file cannot be imported. A pipe is not opened, because that would block."""
    read = read_bounded(file, _MAX_BYTES)
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
    loaded: dict[str, PythonTool],
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
        elif tool_id in loaded:
            message = f"there are two tools {tool_id!r}; the first one is used"
            yield source.finding("duplicate-tool", message, line)
        else:
            loaded[tool_id] = tool


def _import(file: Path, name: str, root: Path) -> ModuleType:
    """Return the module. Raises DeclarationError if its import fails."""
    try:
        return load_file(file, name)
    except BaseException as error:
        # Everything, because the file may call `sys.exit`; only Ctrl-C of a person passes.
        if isinstance(error, KeyboardInterrupt) and not _is_raised(error):
            raise
        raise DeclarationError([_broken(error, file, root)]) from error


def _is_raised(error: BaseException) -> bool:
    """Whether a `raise` statement raised it. Ctrl-C interrupts any other instruction."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_code.co_code[frame.tb_lasti] == _RAISE


def _broken(error: BaseException, file: Path, root: Path) -> Diagnostic:
    place, line = _own_frame(error.__traceback__, root) or (file, 1)
    if isinstance(error, SyntaxError) and error.filename and _is_inside(Path(error.filename), root):
        place, line = Path(error.filename), error.lineno or 1
    text = cut(f"{type(error).__name__}: {error}", MESSAGE_CHARACTERS)
    return Diagnostic(
        code="python-import",
        message=f"the file cannot be imported: {text}",
        file=place.relative_to(root).as_posix(),
        line=line,
        suggestion=f"{_found_elsewhere(error, root)}Its tools are left out; all others work.",
    )


def _found_elsewhere(error: BaseException, root: Path) -> str:
    """Return how to import a module of the project that is not on Python's path."""
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
    """Return the names of the top-level functions of a file that cannot be imported."""
    try:
        return _FUNCTION.findall(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []


def _place_of(error: Diagnostic) -> str:
    return f"{error.file}:{error.line}: {error.message}"


def _own_frame(trace: TracebackType | None, root: Path) -> tuple[Path, int] | None:
    """Return the innermost frame in the project's own files."""
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
