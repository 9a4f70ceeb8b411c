"""Checks the types of a project's scripts with deno, without network, in a separate folder."""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from shutil import copyfile
from tempfile import TemporaryDirectory
from urllib.parse import unquote

from deno import find_deno_bin
from msgspec import Struct, field

from penstock.app.project import Project
from penstock.app.script_types.typings import FILE, project_typings
from penstock.core.diagnostics import Diagnostic
from penstock.core.exhaustion import starting_process
from penstock.core.text import cut, one_line
from penstock.manifest.files import walk
from penstock.manifest.paths import escape_of
from penstock.manifest.tool import ToolManifest

CODE = "type-error"
SECONDS = 120
"""The time limit of one run."""
MAX_THREADS = 2
MAX_MESSAGE = 1000
OPTIONS = {
    "lib": ["esnext"],
    "types": [f"./{FILE}"],
    "strict": True,
    "erasableSyntaxOnly": True,
    "verbatimModuleSyntax": True,
}
"""Options of the compiler. Imports of .mts and `noEmit` are defaults of deno."""
_COMMAND = ("check", "--quiet", "--no-lock", "--no-remote", "--no-npm", "--config")
_SOURCES = (".mts", ".mjs", ".ts", ".js", ".json")
_FINDING = re.compile(r"^(TS\d+) \[ERROR\]: ", re.MULTILINE)
_AT = re.compile(r"^ +at file://(\S+):(\d+):(\d+)$", re.MULTILINE)
_FRAME = re.compile(r"\n[^\n]*\n *[~^]+\s*\Z")


def check_types(project: Project) -> list[Diagnostic]:
    """Return the type errors of the scripts that can be read."""
    with TemporaryDirectory(prefix="penstock-types-") as folder:
        place = _Workspace(Path(folder).resolve(), project)
        with ThreadPoolExecutor(MAX_THREADS) as pool:
            return [
                finding
                for findings in pool.map(place.check, place.groups())
                for finding in findings
            ]


class _Group(Struct, frozen=True):
    """Scripts that reach the same tools."""

    text: str
    """The declarations that they use."""
    tools: list[ToolManifest] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """Scripts that are not tools, such as the resolver of prompts."""


class _Workspace:
    """A folder with a copy of every script of a project."""

    def __init__(self, folder: Path, project: Project) -> None:
        self._folder = folder
        self._files = folder / "files"
        self._project = project
        self._inline: dict[str, ToolManifest] = {}
        """Scripts inside manifests, by the file as which they are checked."""
        for name in walk(project.root):
            with suppress(OSError):  # a pipe, or deleted meanwhile: its importer is reported
                self._take(name)

    def groups(self) -> list[_Group]:
        """Return the scripts, grouped by the tools that they can call."""
        typings = project_typings(self._project)
        by_folder: dict[str, list[ToolManifest]] = defaultdict(list)
        for tool in self._project.bundle.tools.values():
            by_folder[tool.folder].append(tool)
        groups: dict[str, _Group] = {}
        for folder, tools in by_folder.items():
            text = typings.declare_for([folder])
            groups.setdefault(text, _Group(text)).tools.extend(tools)
        bundle = self._project.bundle
        prompts = None if "prompts" in bundle.broken_nouns else bundle.prompts
        if prompts is not None and prompts.resolver is not None:
            text = typings.declare_for([prompts.folder])
            file = (PurePosixPath(prompts.folder) / prompts.resolver.script_file).as_posix()
            groups.setdefault(text, _Group(text)).files.append(file)
        return list(groups.values())

    def check(self, group: _Group) -> list[Diagnostic]:
        """Return the errors in the scripts of a group and their imports."""
        config = self._folder / f"config-{id(group)}"
        config.mkdir()
        (config / FILE).write_text(group.text, encoding="utf-8")
        (config / "deno.json").write_text(json.dumps({"compilerOptions": OPTIONS}))
        entries = {str(self._files / each) for each in group.files}
        entries.update(self._entry(each) for each in group.tools)
        output = self._run([*_COMMAND, str(config / "deno.json"), *sorted(entries)])
        return [] if output is None else list(self._findings(output, group))

    def _take(self, name: str) -> None:
        """Copy a file, or the target of a link that does not lead out of the project."""
        root, path, target = self._project.root, self._project.root / name, self._files / name
        is_folder = path.is_dir()  # one that is not a link is never among them
        if (name.endswith(_SOURCES) or is_folder) and escape_of(root, name) is None:
            target.parent.mkdir(parents=True, exist_ok=True)
            if is_folder:
                target.symlink_to(self._files / path.resolve().relative_to(root.resolve()))
            else:
                copyfile(path, target)

    def _entry(self, tool: ToolManifest) -> str:
        """Return the entry file of a tool; a script inside a manifest is written to one."""
        folder, execution = self._files / tool.folder, tool.execution
        if execution.script is None:
            return str(folder / (execution.script_file or ""))
        file = folder / f".inline.{tool.tool_id}.mts"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(execution.script, encoding="utf-8")
        self._inline[str(file)] = tool
        return str(file)

    def _run(self, arguments: Sequence[str]) -> str | None:
        """Return the output of deno, or None without errors."""
        own = {"DENO_DIR": str(self._folder / "deno"), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}
        command = [find_deno_bin(), *arguments]
        try:
            with starting_process():
                done = subprocess.run(  # noqa: S603  deno as it was installed, on copies
                    command,
                    cwd=self._folder,
                    env=own,
                    capture_output=True,
                    timeout=SECONDS,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            return f"error: the check took more than {SECONDS} s"
        return done.stderr.decode(errors="replace") if done.returncode else None

    def _findings(self, output: str, group: _Group) -> Iterator[Diagnostic]:
        """Yield a finding for each error. An error that prevents reading is the only one."""
        starts = [each.start() for each in _FINDING.finditer(output)] or [0]
        for start, end in zip(starts, [*starts[1:], len(output)], strict=True):
            yield self._finding(output[start:end], group)

    def _finding(self, output: str, group: _Group) -> Diagnostic:
        message, at = output, _AT.search(output)
        if at is not None:
            message = _FRAME.sub("", output[: at.start()].rstrip("\n"))
        code, _, text = message.rpartition(" [ERROR]: ")
        known = f" ({code})" if code else ""
        text = self._relative(text.removeprefix("error: "))
        message_text = cut(one_line(text), MAX_MESSAGE) + known
        if at is not None:
            return self._placed(message_text, unquote(at[1]), int(at[2]), int(at[3]))
        places = [(each.file, each.line) for each in group.tools]
        file, line = min([*places, *((each, 1) for each in group.files)])
        return Diagnostic(code=CODE, message=message_text, file=file, line=line)

    def _relative(self, text: str) -> str:
        """Return the text with the project's file names in place of those of the copies."""
        copies = re.compile(rf"(?:file://)?{re.escape(str(self._folder))}/[^\s'\"]*")
        return copies.sub(lambda each: self._name(unquote(each[0]).removeprefix("file://")), text)

    def _name(self, path: str) -> str:
        """Return the project's name of a copied file."""
        tool, inside = self._inline.get(path), Path(path).is_relative_to(self._files)
        if tool is not None:
            return tool.file
        return Path(path).relative_to(self._files).as_posix() if inside else FILE

    def _placed(self, message: str, path: str, line: int, column: int) -> Diagnostic:
        tool, file = self._inline.get(path), self._name(path)
        if tool is None:
            return Diagnostic(code=CODE, message=message, file=file, line=line, column=column)
        place = tool.execution.place_of(line, column)
        return Diagnostic(
            code=CODE, message=message, file=file, line=place.line, column=place.column
        )
