"""The built-in tools, one file per family; this file lists them."""

from collections.abc import Mapping

from penstock.builtins import (
    architect,
    archive,
    artifacts,
    ask_user,
    bash,
    download,
    files,
    media,
    notify,
    schedule,
    skill_manifests,
    skills,
    subagent,
    workflow,
)
from penstock.builtins.code import reading, searching, writing
from penstock.builtins.sheets import csv, excel
from penstock.manifest.skill import SkillManifest
from penstock.tools.tool import Tool

TOOLS: tuple[Tool, ...] = (
    *ask_user.TOOLS,
    *artifacts.TOOLS,
    *skills.TOOLS,
    *files.TOOLS,
    *archive.TOOLS,
    *csv.TOOLS,
    *excel.TOOLS,
    *download.TOOLS,
    *media.TOOLS,
    *notify.TOOLS,
    *reading.TOOLS,
    *writing.TOOLS,
    *searching.TOOLS,
    *bash.TOOLS,
    *skills.HANDBOOK_TOOLS,
    *subagent.TOOLS,
    *architect.TOOLS,
    *workflow.TOOLS,
    *schedule.TOOLS,
)
"""Every built-in tool, in the order that lists show them."""
_IDS = frozenset(each.spec.tool_id for each in TOOLS)
SKILLS: Mapping[str, SkillManifest] = {
    skill_id: skill
    for skill_id, skill in skill_manifests.SKILLS.items()
    if _IDS.issuperset(skill.tools)
}
"""Every built-in skill whose tools exist, by id."""
