"""`*.skill.yaml`: instructions for a model, with the tools and the resources that they use.

`read_skill` reads one manifest, `grant` merges what selected skills allow, `list_resources` lists
the files that come with a skill.
"""

import mimetypes
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

from penstock.manifest.fields import Field, Invalid, Node, quoted, read_fields
from penstock.manifest.files import (
    NOUNS,
    TOO_LARGE,
    UnreadReason,
    is_searched,
    read_bounded,
    shown,
)
from penstock.manifest.kinds import (
    Boolean,
    Id,
    ListOf,
    OneOf,
    Text,
    exactly_one,
    refuse_doubles,
)
from penstock.manifest.paths import SCRIPTS, FilePathKind
from penstock.manifest.tool import (
    DESCRIPTION,
    LABELS,
    REQUIRES_PERMISSIONS,
    TOOL_IDS,
    ToolManifest,
    read_tool,
)

MAX_INSTRUCTION_BYTES = 65_536
MAX_INLINE = 100
TIERS = ("nano", "small", "medium", "large", "frontier")
"""From the weakest to the strongest."""
MAX_RESOURCES = 200
_MANIFESTS = tuple(f".{noun}.yaml" for noun in NOUNS)
_SECRET = (".env", "-shm")
_FOR_EDITORS = frozenset({"deno.json", "tsconfig.json"})
_OF_OPERATORS = frozenset({"penstock.toml", "penstock.db", "secret.key"})
"""Files of a project or its data that no model may read."""


class SkillManifest(Struct, frozen=True, kw_only=True):
    """One skill as its author wrote it, with its instructions read."""

    skill_id: str
    name: str
    description: str
    instruction: str
    """The text, also if it comes from a separate file."""
    instruction_file: str | None = None
    version: str | None = None
    tools: tuple[str, ...] = ()
    """Tools that models and scripts may call, in addition to the inline ones."""
    script_tools: tuple[str, ...] = ()
    """Tools that only scripts may call."""
    inline: tuple[ToolManifest, ...] = ()
    requires_skills: tuple[str, ...] = ()
    requires_labels: tuple[str, ...] = ()
    requires_permissions: tuple[str, ...] = ()
    execution_model_tier: str | None = None
    completion_verification: bool | None = None
    file: str
    """Relative to the project."""
    line: int
    """The line of the id."""
    folder: str
    """The folder of its resources, relative to the project; `.` is the project."""


def read_skill(node: Node) -> SkillManifest:
    """Return the skill in a mapping; an invalid field is reported and has its default."""
    values = read_fields(node, FIELDS)
    exactly_one(node, "instruction", "instruction_file")
    refuse_doubles(node.at("requires_permissions"), "permission")
    skill_id = values["skill_id"] or ""
    if values["instruction_file"] is not None:
        values["instruction"] = _read_instruction(node.at("instruction_file"))
    inline = _inline(node.at("tool_definitions"), skill_id)
    values |= {"skill_id": skill_id, "instruction": values["instruction"] or ""}
    del values["tool_definitions"]
    return SkillManifest(
        **values,
        inline=inline,
        file=node.document.file,
        line=node.line_of("skill_id"),
        folder=node.home.shown,
    )


def _inline(node: Node, skill_id: str) -> tuple[ToolManifest, ...]:
    items = node.value if isinstance(node.value, list) else []
    count = len(items) if len(items) <= MAX_INLINE else 0
    tools = [read_tool(node.at(number), skill=skill_id) for number in range(count)]
    return tuple(tool for tool in tools if isinstance(tool, ToolManifest))


def _read_instruction(node: Node) -> str | None:
    """Return the text of the file, or report why it cannot be used."""
    expected = f"a UTF-8 file of 1 to {MAX_INSTRUCTION_BYTES} bytes"
    content = read_bounded(node.home.folder / node.value, MAX_INSTRUCTION_BYTES)
    if isinstance(content, UnreadReason):
        if content.code == TOO_LARGE:
            node.bad_value(expected, "a larger file")
        else:
            node.refuse(content.code, f"{quoted(node.value)}: {content.message}")
        return None
    try:
        text = content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        node.bad_value(expected, f"a file that is not UTF-8 at byte {error.start}")
        return None
    if not text:
        node.bad_value(expected, "an empty file")
    return text or None


class SkillGrants(Struct, frozen=True, kw_only=True):
    """The merged grants of selected skills."""

    skills: tuple[str, ...] = ()
    """All selected skills, in order."""
    tools: frozenset[str] = frozenset()
    inline: frozenset[str] = frozenset()
    script_tools: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    """Skills that were named or required but do not exist or are broken."""


def order_skills(chosen: Iterable[str], skills: Mapping[str, SkillManifest]) -> tuple[str, ...]:
    """Return the skills and those that they require: depth first, in listed order, each once."""
    ordered: dict[str, None] = {}
    waiting = list(chosen)[::-1]
    while waiting:
        skill_id = waiting.pop()
        if skill_id in ordered:
            continue
        ordered[skill_id] = None
        if skill := skills.get(skill_id):
            waiting += reversed(skill.requires_skills)
    return tuple(ordered)


def grant(
    chosen: Iterable[str],
    skills: Mapping[str, SkillManifest],
    builtin: Mapping[str, Sequence[str]] | None = None,
) -> SkillGrants:
    """Return what the chosen skills grant; `builtin` are the tools of each built-in skill."""
    builtins = builtin or {}
    ordered = order_skills(chosen, skills)
    own = [skills[name] for name in ordered if name in skills]
    builtin_tools = [
        tool for name in ordered if name not in skills for tool in builtins.get(name, ())
    ]
    return SkillGrants(
        skills=tuple(name for name in ordered if name in skills or name in builtins),
        tools=frozenset(builtin_tools).union(*(skill.tools for skill in own)),
        inline=frozenset(tool.tool_id for skill in own for tool in skill.inline),
        script_tools=frozenset().union(*(skill.script_tools for skill in own)),
        missing=tuple(name for name in ordered if name not in skills and name not in builtins),
    )


class Resource(Struct, frozen=True, kw_only=True):
    """One file below the folder of a skill."""

    resource_id: str
    """`resource.1`, `resource.2` and so on, by path."""
    path: str
    """Relative to the folder of the skill, with `/`."""
    media_type: str
    size: int


def list_resources(root: Path, skill: SkillManifest) -> tuple[Resource, ...]:
    """Return the resources of a skill: no manifests, scripts, hidden files or other skills."""
    folder = root / skill.folder
    own = None if skill.instruction_file is None else Path(skill.instruction_file).as_posix()
    files = sorted(
        ((path, size) for path, size in _files(folder) if path != own),
        key=lambda each: os.fsencode(each[0]),
    )
    return tuple(
        Resource(
            resource_id=f"resource.{number}",
            path=shown(path),
            media_type=_types().guess_type(path)[0] or "application/octet-stream",
            size=size,
        )
        for number, (path, size) in enumerate(files[:MAX_RESOURCES], start=1)
    )


def is_resource(name: str) -> bool:
    """Return whether a file name in the folder of a skill is a resource."""
    is_for_others = name in _FOR_EDITORS or name.removesuffix("-wal") in _OF_OPERATORS
    return not is_for_others and not name.endswith((*_MANIFESTS, *SCRIPTS, *_SECRET))


@cache
def _types() -> mimetypes.MimeTypes:
    """Return the table of media types; loaded on first use, as it is large and rarely needed."""
    return mimetypes.MimeTypes()


def _files(root: Path) -> Iterator[tuple[str, int]]:
    """Yield the files below a folder, except those of other skills. Symlinks are not followed."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = [each for each in os.scandir(root / folder) if is_searched(each.name)]
        except OSError:
            continue
        if folder and any(entry.name.endswith(".skill.yaml") for entry in entries):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{folder}{entry.name}/")
            elif entry.is_file(follow_symlinks=False) and is_resource(entry.name):
                with suppress(OSError):  # it was deleted meanwhile
                    yield f"{folder}{entry.name}", entry.stat().st_size


class _Definitions(Struct, frozen=True, kw_only=True):
    """Inline tools, each a complete manifest; `read_skill` reads them with the skill's id."""

    expected: str = "a list of tool manifests"

    def read(self, node: Node) -> tuple[()] | Invalid:
        """Report a value that is not a list or is too long."""
        if not isinstance(node.value, list):
            return node.wrong_type(self.expected)
        if len(node.value) > MAX_INLINE:
            return node.too_long(self.expected, MAX_INLINE)
        return ()


FIELDS = (
    Field(
        key="skill_id",
        kind=Id(noun="skill"),
        required=True,
        meaning="The id of the skill.",
    ),
    Field(
        key="name",
        kind=Text(expected="a non-empty string of at most 128 characters", least=1, most=128),
        required=True,
        meaning="The name that people and models see.",
    ),
    Field(
        key="description",
        kind=DESCRIPTION,
        required=True,
        meaning="The purpose. Models choose skills by it.",
    ),
    Field(
        key="instruction",
        kind=Text(expected="a non-empty string", least=1, max_bytes=MAX_INSTRUCTION_BYTES),
        meaning="Text that joins the prompt. Set either this or `instruction_file`.",
    ),
    Field(
        key="instruction_file",
        kind=FilePathKind(),
        meaning="The instruction in a UTF-8 file below the manifest's folder.",
    ),
    Field(
        key="version",
        kind=Text(expected="a string (put it in quotes)", most=64),
        meaning="Shown in lists.",
    ),
    Field(
        key="tools",
        kind=TOOL_IDS,
        default=(),
        meaning="Tools that models and scripts may call while the skill is selected.",
    ),
    Field(
        key="script_tools",
        kind=TOOL_IDS,
        default=(),
        meaning="Tools that only scripts may call. Models do not see them.",
    ),
    Field(
        key="tool_definitions",
        kind=_Definitions(),
        meaning="Inline tools: at most 100 complete tool manifests. Do not list them in `tools`.",
    ),
    Field(
        key="requires_skills",
        kind=ListOf(
            item=Text(expected="a skill id", least=1, most=200),
            expected="a list of skill ids",
            most=50,
        ),
        default=(),
        meaning="Skills selected with this one: depth first, in the listed order, each once.",
    ),
    Field(
        key="requires_labels",
        kind=LABELS,
        default=(),
        meaning="Labels that the agent must have, all of them.",
    ),
    REQUIRES_PERMISSIONS,
    Field(
        key="execution_model_tier",
        kind=OneOf(words=TIERS),
        meaning="Has no effect yet. Later the highest tier of the selected skills picks the model.",
    ),
    Field(
        key="completion_verification",
        kind=Boolean(),
        meaning="Has no effect yet.",
    ),
)
