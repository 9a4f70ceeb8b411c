"""The built-in skills: the tools that each one adds, and its instructions."""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.manifest.skill import SkillManifest

VERSION = "1.0.0"


def _skill(skill_id: str, name: str, instruction: str, *tools: str) -> SkillManifest:
    return SkillManifest(
        skill_id=skill_id,
        name=name,
        description=f"{name}: {', '.join(tools or (skill_id,))}.",
        instruction=instruction,
        version=VERSION,
        tools=tools or (skill_id,),
        file="",
        line=0,
        folder="",
    )


_EVERY = (
    _skill(
        "read_text_file",
        "Read text files",
        "Read UTF-8 text files of the workspace with read_text_file.",
    ),
    _skill(
        "write_text_file",
        "Write text files",
        "Write UTF-8 text files with write_text_file: task:// lasts as long as this task, "
        "session:// as long as the conversation. An existing file is overwritten.",
    ),
    _skill(
        "read_file_base64",
        "Read files as base64",
        "Read files that are not text with read_file_base64.",
    ),
    _skill(
        "read_dir",
        "List directories",
        "See what files there are with read_dir; task:// and session:// are the roots.",
    ),
    _skill("zip", "Make zip archives", "Pack files and directories of the workspace with zip."),
    _skill(
        "unzip",
        "Unpack zip archives",
        "Unpack an archive of the workspace with unzip: all of it or nothing.",
    ),
    _skill(
        "download_url_to_file",
        "Download files",
        "Fetch a file of the web into the workspace with download_url_to_file.",
    ),
    _skill(
        "send_notification",
        "Send notifications",
        "Send a message to a channel of the project with send_notification.",
    ),
    _skill(
        "read_csv",
        "Read CSV files",
        "Look at a CSV file with csv_inspect first, then read the cells you need with csv_read.",
        "csv_inspect",
        "csv_read",
    ),
    _skill(
        "write_csv",
        "Write CSV files",
        "Make a CSV file with csv_create; change cells of one with csv_edit_cells.",
        "csv_create",
        "csv_edit_cells",
    ),
    _skill(
        "read_excel",
        "Read Excel files",
        "Look at a workbook with excel_inspect first, then read the cells you need with "
        "excel_read.",
        "excel_inspect",
        "excel_read",
    ),
    _skill(
        "write_excel_cells",
        "Write Excel files",
        "Make a workbook with excel_create; change cells with excel_edit_cells, and how they look "
        "with the other tools.",
        "excel_create",
        "excel_edit_cells",
        "excel_copy_cell_style",
        "excel_clear_cell_style",
        "excel_copy_row",
        "excel_copy_column",
        "excel_auto_fit_row",
    ),
    _skill(
        "edit_excel_structure",
        "Change Excel rows and columns",
        "Insert and delete rows and columns with excel_edit_structure; make many changes in one "
        "save with excel_apply_changes.",
        "excel_edit_structure",
        "excel_apply_changes",
    ),
    _skill(
        "fetch_media",
        "Fetch media",
        "Bring media into the workspace by its id with media_fetch.",
        "media_fetch",
    ),
    _skill(
        "send_attachment",
        "Send attachments",
        "Keep a file of the workspace as media with media_push_vfs, then attach it to your answer "
        "with send_media_attachment.",
        "media_push_vfs",
        "send_media_attachment",
    ),
)
SKILLS: Mapping[str, SkillManifest] = MappingProxyType({each.skill_id: each for each in _EVERY})
"""Every built-in skill, by id."""
