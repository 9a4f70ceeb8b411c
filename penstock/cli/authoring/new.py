"""Creates a tool or a skill: a manifest and a script that run, with types for editors."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.app.project import Project, load_project
from penstock.app.script_types.typings import typing_files
from penstock.cli.options import ProjectFolder
from penstock.cli.project import read_settings
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.core.errors import NameTaken

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its id: letters, digits, _ . and -.")]
_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_MAX_NAME_LENGTH = 64
_GREET = "_greet"
"""Suffix of the id of a new skill's tool."""
_TOOL = """\
name: {tool}
description: Greet a person by name.
input_schema:
  type: object
  properties:
    name: {{type: string, description: The name of the person.}}
  required: [name]
  additionalProperties: false
output_schema:
  type: object
  properties:
    greeting: {{type: string}}
  required: [greeting]
  additionalProperties: false
effect: none
direct_call: true
execution:
  type: script
  script_file: {file}.mts
"""
_SKILL = """\
skill_id: {skill}
name: {title}
description: Greets people.
instruction: |
  Greet people with {tool}, and with nothing else.
tool_definitions:
  - {inline}"""
_SCRIPT = """\
export async function run({{ name }}: FloIn<"{tool}">): Promise<FloOut<"{tool}">> {{
  console.log("greeting", name);
  return {{ greeting: `Hello, ${{name}}!` }};
}}
"""
_TSCONFIG = """\
{
  "compilerOptions": {
    "allowImportingTsExtensions": true,
    "erasableSyntaxOnly": true,
    "lib": ["esnext"],
    "module": "preserve",
    "noEmit": true,
    "strict": true,
    "target": "esnext",
    "types": [],
    "verbatimModuleSyntax": true
  },
  "include": ["**/*.mts", "**/*.ts"]
}
"""


def new_tool(name: Name, *, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """Create a tool in tools/: manifest, script, and types for editors. Overwrites nothing."""
    root, existing = _read(name, project, _MAX_NAME_LENGTH)
    _check(name, _tools(existing), "tool")
    files = {
        f"tools/{name}.tool.yaml": _TOOL.format(tool=name, file=name),
        f"tools/{name}.mts": _SCRIPT.format(tool=name),
    }
    written = _write(root, "tools", files)
    _print_written(name, written, f"penstock call {name} name=Ann", as_json=as_json)


def new_skill(name: Name, *, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """Create a skill in a folder below skills/, with its own tool. Overwrites nothing."""
    root, existing = _read(name, project, _MAX_NAME_LENGTH - len(_GREET))
    tool, folder = f"{name}{_GREET}", f"skills/{name}"
    _check(name, {*existing.every_skill, *existing.bundle.broken_skills}, "skill")
    _check(tool, _tools(existing), "tool")
    inline = _TOOL.format(tool=tool, file=name).replace("\n", "\n    ").rstrip(" ")
    title = name.replace("_", " ").replace("-", " ").capitalize()
    manifest = _SKILL.format(skill=name, title=title, tool=tool, inline=inline)
    files = {
        f"{folder}/{name}.skill.yaml": manifest,
        f"{folder}/{name}.mts": _SCRIPT.format(tool=tool),
    }
    written = _write(root, folder, files)
    _print_written(tool, written, f'penstock chat --skill {name} "Greet Ann"', as_json=as_json)


COMMANDS = {"tool": new_tool, "skill": new_skill}


def _read(name: str, folder: Path | None, most: int) -> tuple[Path, Project]:
    if not _ID.fullmatch(name) or name.startswith("mcp__") or len(name) > most:
        raise typer.BadParameter(
            f'{name!r} is not an id: start with a letter or "_"; use letters, digits, "_", "." '
            f'and "-", at most {most} characters'
        )
    settings = read_settings(folder)
    return settings.root, load_project(settings)


def _tools(project: Project) -> set[str]:
    manifests = (each.tool_id for each in project.bundle.every_tool)
    return {*(each.spec.tool_id for each in project.every_tool), *manifests}


def _check(name: str, taken: set[str], noun: str) -> None:
    if name in taken:
        raise NameTaken(f"the {noun} {name!r} already exists, so nothing was written")


def _write(root: Path, folder: str, files: Mapping[str, str]) -> list[str]:
    """Write new files and the types of their folder. Returns the paths that were written."""
    written = []
    existing = [name for name in files if (root / name).exists()]
    if existing:
        names = ", ".join(existing)
        raise NameTaken(
            f"{names} would be overwritten, so nothing was written. Choose another name"
        )
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
        written.append(name)
    config = f"{folder}/tsconfig.json"
    if not (root / config).exists():
        (root / config).write_text(_TSCONFIG, encoding="utf-8")
        written.append(config)
    return [*written, *_write_types(root, folder)]


def _write_types(root: Path, folder: str) -> Iterator[str]:
    """Write stale type files. A file that penstock did not generate stays; a warning names it."""
    for file in typing_files(load_project(read_settings(root))):
        is_here = file.path.parent == root / folder
        if not is_here and not (file.path.exists() and file.is_stale):
            continue
        try:
            file.write()
        except NameTaken as error:
            note(f"Warning: {error}")
        else:
            yield str(file.path.relative_to(root))


def _print_written(tool: str, written: Sequence[str], also: str, *, as_json: bool) -> None:
    """Print the written files and commands to try next."""
    if as_json:
        print_json({"tool": tool, "files": list(written)})
        return
    for name in written:
        say(f"  {name}")
    say(f'\nTry:\n  penstock run-tool {tool} --input \'{{"name": "Ann"}}\'\n  {also}')
