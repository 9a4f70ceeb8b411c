"""Skills for models: list them, select one, read its files; `skill_read` reads handbooks."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.agents.prompt import skill_prompt
from penstock.core.call import SKILL_READ, SKILL_TEXT, Effect, Origin
from penstock.core.call_errors import ToolFailed, tool_failure
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Json
from penstock.core.events.events import SkillsSelected
from penstock.core.json_values.json_text import compact
from penstock.core.json_values.schema import Problem
from penstock.core.stored.changes import WorkspaceChange
from penstock.manifest.files import TOO_LARGE, UnreadReason, read_bounded
from penstock.manifest.handbook import HandbookCatalog
from penstock.manifest.skill import Resource, SkillManifest
from penstock.resources.project.access import OPEN
from penstock.resources.project.files import ProjectFiles
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import TEXT, URI, BuiltIn, builtin, fields_of, place
from penstock.tools.skills import NO_SKILLS, Selection, TaskSkills
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Tool

MAX_TEXT = 65_536
SKILL: Json = {"type": "string", "description": "As list_available_skills says it."}
MODE: Json = {"enum": ["text", "import_to_vfs"]}


@builtin(
    "List the skills that can be activated: what each is for, its tools, how many files it has.",
    {},
    effect=Effect.READ,
)
async def list_available_skills(input: Json, invocation: Invocation) -> Any:
    """Return every skill that may be selected."""
    task = invocation.caller.skills
    visible = [] if task is None else task.visible()
    skills = NO_SKILLS if task is None else task.skills
    listed = [
        {
            "skill_id": each.skill_id,
            "name": each.name,
            "description": each.description,
            "resource_count": len(skills.resources(each)),
            "tools": [*each.tools, *(tool.tool_id for tool in each.inline)],
        }
        for each in visible
    ]
    return {"skill_count": len(listed), "skills": listed}


@builtin(
    "Activate a skill for the rest of the conversation: returns its instructions; its tools are "
    "there from your next turn on.",
    {"skill_id": SKILL},
    effect=Effect.WRITE,
)
async def activate_skill(input: Json, invocation: Invocation) -> Any:
    """Select a skill and the skills it requires."""
    skill_id, caller = input["skill_id"], invocation.caller
    task, before = caller.skills, caller.newest().skills
    skill = task.skills.find(skill_id) if task is not None else None
    if skill_id in before:
        return {"skill_id": skill_id, "selected_skill_ids": list(before)}
    if task is None or skill is None or not task.is_visible(skill):
        raise _no_such_skill(skill_id, task)
    invocation.ledger.add(SkillsSelected(skill_ids=(skill_id,)), invocation.call.path)
    now = caller.newest().skills
    activated = {"skill_id": skill_id, "selected_skill_ids": list(now)}
    # A model reads the instructions in this outcome: in the system prompt they would change the
    # beginning of its requests. Only if they do not fit, the system prompt has them.
    added = Selection(skills=tuple(each for each in now if each not in before))
    told = activated | {SKILL_TEXT: skill_prompt(task.skills, added)}
    is_read = caller.origin is Origin.MODEL
    return told if is_read and len(compact(told)) <= (caller.clip_at or MAX_TEXT) else activated


@builtin(
    "Read a file that comes with an active skill: as text, or into the workspace with "
    "import_to_vfs and a destination_path.",
    {"skill_id": SKILL, "resource_id": TEXT, "mode": MODE, "destination_path?": URI},
    effect=Effect.WRITE,
)
async def read_skill_resource(input: Json, invocation: Invocation) -> Any:
    """Return the text of a file of a skill, or copy it into the workspace."""
    if input["mode"] == "import_to_vfs" and "destination_path" not in input:
        problem = Problem("/destination_path", "is required when mode is import_to_vfs")
        raise invalid(invocation.spec.tool_id, [problem])
    skill, resources = _files(input["skill_id"], invocation)
    resource_id = input["resource_id"]
    by_id = {each.resource_id: each for each in resources}
    if resource_id not in by_id:
        hint = did_you_mean(resource_id, by_id)
        raise tool_failure(
            "no_such_resource", f"skill {skill.skill_id!r} has no resource {resource_id!r}.{hint}"
        )
    ids = {"skill_id": skill.skill_id, "resource_id": resource_id}
    return ids | await _give(skill, by_id[resource_id], input, invocation)


@builtin(
    "Copy a file that comes with an active skill into the workspace, by its path in the skill.",
    {"skill_id": SKILL, "asset_path": TEXT, "destination_path": URI},
    effect=Effect.WRITE,
)
async def import_skill_asset(input: Json, invocation: Invocation) -> Any:
    """Copy a file of a skill into the workspace."""
    asset = PurePosixPath(input["asset_path"])
    if asset.is_absolute() or ".." in asset.parts or not asset.parts:
        problem = f'must be a relative path in the skill, without "..", found {str(asset)!r}'
        raise invalid(invocation.spec.tool_id, [Problem("/asset_path", problem)])
    skill, resources = _files(input["skill_id"], invocation)
    by_path = {each.path: each for each in resources}
    resource = by_path.get(str(asset))
    if resource is None:
        hint = did_you_mean(str(asset), by_path)
        raise tool_failure(
            "not_found", f"skill {skill.skill_id!r} has no file {str(asset)!r}.{hint}"
        )
    ids = {"skill_id": skill.skill_id, "resource_id": resource.resource_id}
    return ids | await _import(skill, resource, input, invocation)


def _global(tool: BuiltIn) -> BuiltIn:
    return replace(tool, spec=replace(tool.spec, is_global=True, is_offered=True))


TOOLS = tuple(
    map(_global, (list_available_skills, activate_skill, read_skill_resource, import_skill_asset))
)


async def _give(
    skill: SkillManifest, resource: Resource, input: Json, invocation: Invocation
) -> dict[str, Any]:
    if input["mode"] == "import_to_vfs":
        return await _import(skill, resource, input, invocation)
    if resource.size > MAX_TEXT:
        raise tool_failure(
            "too_large",
            f"{resource.path!r} has {resource.size} bytes; at most {MAX_TEXT} are read as text. "
            "Take it into the workspace with import_to_vfs.",
        )
    content = await _bytes(skill, resource, invocation)
    text = _text(content)
    if text is None:
        raise tool_failure("not_text", f"{resource.path!r} is not UTF-8 text")
    about = {"mime_type": resource.media_type, "relative_path": resource.path}
    return {"kind": "text", "content": text, **about}


async def _import(
    skill: SkillManifest, resource: Resource, input: Json, invocation: Invocation
) -> dict[str, Any]:
    target = place(input, "destination_path", invocation)
    content = await _bytes(skill, resource, invocation)
    change = await invocation.workspace.write(target, content)
    invocation.change = WorkspaceChange(files=(change,))
    return {
        "kind": "blob" if _text(content) is None else "text",
        "mime_type": resource.media_type,
        "relative_path": resource.path,
        "destination_path": str(target),
    }


def _files(skill_id: str, invocation: Invocation) -> tuple[SkillManifest, tuple[Resource, ...]]:
    """Return a selected skill and its files."""
    task, selection = invocation.caller.skills, invocation.caller.newest()
    skill = task.skills.find(skill_id) if task else None
    if task is not None and skill is not None and skill_id in selection.skills:
        return skill, task.skills.resources(skill)
    if task is None or skill is None or not task.is_visible(skill):
        raise _no_such_skill(skill_id, task)
    raise _not_selected(skill_id, selection)


async def _bytes(skill: SkillManifest, resource: Resource, invocation: Invocation) -> bytes:
    task = invocation.caller.skills
    file = (task.skills if task else NO_SKILLS).place(skill, resource)
    most = invocation.edition.world.limits.file_bytes
    folder = invocation.edition.resources.project
    files = None if folder is None else folder.files(OPEN)
    read = partial(_read, files, file, resource.path, most)
    content: bytes = await invocation.edition.threads.run(read)
    return content


def _read(files: ProjectFiles | None, file: Path, shown: str, most: int) -> bytes:
    """Return the bytes of a file. Raises NotPermitted for a hidden file, under any of its names."""
    if files is not None and file.is_relative_to(files.root):
        name = file.relative_to(files.root).as_posix()
        return files.read(replace(files.readable(name), named=shown), most)
    content = read_bounded(file, most)
    if isinstance(content, UnreadReason):
        reason = "too_large" if content.code == TOO_LARGE else "not_found"
        raise tool_failure(reason, f"{shown!r}: {content.message}")
    return content


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _no_such_skill(skill_id: str, task: TaskSkills | None) -> ToolFailed:
    known = [each.skill_id for each in task.visible()] if task else []
    return tool_failure(
        "no_such_skill", f"there is no skill {skill_id!r}.{did_you_mean(skill_id, known)}"
    )


def _not_selected(skill_id: str, selection: Selection) -> ToolFailed:
    selected = ", ".join(selection.skills) or "none"
    return tool_failure(
        "not_selected",
        f"skill {skill_id!r} is not active; active: {selected}. Activate it with activate_skill.",
    )


# ---- handbooks ----

HANDBOOK_TEXT = (
    "Read one topic file of a skill: reference text that is not in your instructions. Only files "
    "that the skill's index, SKILL.md, lists can be read. Returns the text of the file."
)
_NAME: Json = {"type": "string", "minLength": 1, "maxLength": 1024}
READ_SPEC = ToolSpec(
    tool_id=SKILL_READ,
    description=f"{HANDBOOK_TEXT} There are no skills.",
    input_schema=fields_of(
        {
            "skill": {**_NAME, "description": "The name of the skill"},
            "file": {**_NAME, "description": "A file that the skill lists, as it is listed"},
        }
    ),
    effect=Effect.READ,
)


class SkillRead(Struct, frozen=True, kw_only=True):
    """Reads the handbooks of a project; its description lists them."""

    spec: ToolSpec = READ_SPEC
    handbooks: HandbookCatalog

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the text of a file."""
        read = partial(self.handbooks.read, input["skill"], input["file"])
        return await invocation.edition.threads.run(read)

    def preview(self, output: Any) -> str | None:
        """Return the usual line."""
        return None


def with_handbooks(tools: Iterable[Tool], handbooks: HandbookCatalog) -> tuple[Tool, ...]:
    """Return the tools, with the one that reads handbooks over these."""
    return tuple(_over(each, handbooks) if isinstance(each, SkillRead) else each for each in tools)


def _over(tool: SkillRead, handbooks: HandbookCatalog) -> SkillRead:
    listed = handbooks.listed()
    about = (
        f"{HANDBOOK_TEXT} The skills, with their files:\n{listed}"
        if listed
        else READ_SPEC.description
    )
    return replace(tool, spec=replace(tool.spec, description=about), handbooks=handbooks)


HANDBOOK_TOOLS = (SkillRead(handbooks=HandbookCatalog()),)
