"""Which built-in tools a project's chats are offered: a small core, and families by name.

A model pays for every tool it is sent, in tokens and in wrong choices. The core holds what any chat
needs, and only what can be used: a project without flows has no tool that runs one. Everything else
is in a family, off until `[tools] builtin` names it. Agents that list their tools, skills, and
scripts get what they name, whatever is chosen here.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import ASK_USER, EXECUTE_WORKFLOW, SKILL_READ, SUBAGENT
from penstock.tools.tool import Tool, with_spec

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "agents": (SUBAGENT,),
    "archive": ("zip", "unzip"),
    "artifacts": ("list_tool_result_artifacts",),
    "download": ("download_url_to_file",),
    "files": ("read", "ls", "write", "edit", "grep", "find"),
    "media": (
        "media_fetch",
        "media_push_vfs",
        "media_push_base64",
        "get_media_download_url",
        "send_media_attachment",
    ),
    "notify": ("send_notification",),
    "schedules": ("get_schedule_info", "create_schedule"),
    "sheets": (
        "csv_inspect",
        "csv_read",
        "csv_create",
        "csv_edit_cells",
        "excel_inspect",
        "excel_read",
        "excel_create",
        "excel_edit_cells",
        "excel_copy_cell_style",
        "excel_clear_cell_style",
        "excel_copy_row",
        "excel_copy_column",
        "excel_edit_structure",
        "excel_auto_fit_row",
        "excel_apply_changes",
    ),
    "shell": ("bash",),
    "skills": (
        "list_available_skills",
        "activate_skill",
        "read_skill_resource",
        "import_skill_asset",
    ),
    "workspace": ("read_text_file", "write_text_file", "read_file_base64", "read_dir"),
}
"""The tools of each family that `[tools] builtin` can name."""
WORKBOOKS = frozenset(each for each in FAMILIES["sheets"] if each.startswith("excel_"))
"""The tools that need the extra `sheets`."""


class ProjectFeatures(Struct, frozen=True, kw_only=True):
    """Features of a project that built-in tools can use."""

    has_skills: bool = False
    """Skills of the project. Built-in skills serve agents that name them."""
    has_handbooks: bool = False
    """Flows of the project or of a plugin."""
    has_agents: bool = False
    """Agents in files, without the assistant and the agents that every project has."""
    has_flows: bool = False
    has_shell: bool = False
    has_channels: bool = False
    has_workbooks: bool = False
    """Whether the extra for Excel files is installed."""


def offer_builtins(
    tools: Iterable[Tool], families: Collection[str], features: ProjectFeatures
) -> tuple[Tool, ...]:
    """Return the built-in tools, each marked with whether chats of this project are offered it."""
    chosen = {each for name in families for each in FAMILIES.get(name, ())}
    offered = (chosen | core(features)) - _useless(features)
    return tuple(_offered(each, is_offered=each.spec.tool_id in offered) for each in tools)


def core(features: ProjectFeatures) -> frozenset[str]:
    """Return the tools that every chat of such a project is offered."""
    tool_ids = {ASK_USER, "read_tool_result_artifact"}
    if features.has_skills:
        tool_ids |= {"list_available_skills", "activate_skill", "read_skill_resource"}
    if features.has_handbooks:
        tool_ids.add(SKILL_READ)
    if features.has_agents:
        tool_ids.add(SUBAGENT)
    if features.has_flows:
        tool_ids.add(EXECUTE_WORKFLOW)
    return frozenset(tool_ids)


def family_of(tool_id: str) -> str:
    """Return the family of a built-in tool, or an empty text for other tools."""
    return next((name for name, ids in FAMILIES.items() if tool_id in ids), "")


def why_useless(family: str, features: ProjectFeatures) -> str:
    """Return why a family is useless in a project, or an empty text."""
    if family == "shell" and not features.has_shell:
        return "shell commands are off; set shell = true under [flows]"
    if family == "notify" and not features.has_channels:
        return "there is no channel; add a [notifications.NAME] section"
    return ""


def why_partial(family: str, features: ProjectFeatures) -> str:
    """Return why a family offers only some of its tools in a project, or an empty text."""
    if family == "sheets" and not features.has_workbooks:
        return "excel_* need openpyxl, which is not installed; pip install 'penstock[sheets]'"
    return ""


def _useless(features: ProjectFeatures) -> set[str]:
    tool_ids = {each for name in FAMILIES if why_useless(name, features) for each in FAMILIES[name]}
    return tool_ids if features.has_workbooks else tool_ids | WORKBOOKS


def _offered(tool: Tool, *, is_offered: bool) -> Tool:
    if tool.spec.is_offered is is_offered:
        return tool
    return with_spec(tool, replace(tool.spec, is_offered=is_offered))
