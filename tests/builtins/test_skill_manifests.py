"""The built-in skills."""

import pytest

from penstock.builtins import SKILLS as USABLE
from penstock.builtins import TOOLS
from penstock.builtins.skill_manifests import SKILLS

ONE_TOOL = (
    "read_text_file",
    "write_text_file",
    "read_file_base64",
    "read_dir",
    "zip",
    "unzip",
    "download_url_to_file",
    "send_notification",
)
SEVERAL = {
    "read_csv": "csv_inspect csv_read",
    "write_csv": "csv_create csv_edit_cells",
    "read_excel": "excel_inspect excel_read",
    "write_excel_cells": "excel_create excel_edit_cells excel_copy_cell_style "
    "excel_clear_cell_style excel_copy_row excel_copy_column excel_auto_fit_row",
    "edit_excel_structure": "excel_edit_structure excel_apply_changes",
    "fetch_media": "media_fetch",
    "send_attachment": "media_push_vfs send_media_attachment",
}


@pytest.mark.parametrize(
    ("skill_id", "tools"), [*((each, each) for each in ONE_TOOL), *SEVERAL.items()]
)
def test_each_skill_has_its_tools_and_version(skill_id: str, tools: str) -> None:
    skill = SKILLS[skill_id]
    assert (skill.skill_id, skill.version) == (skill_id, "1.0.0")
    assert skill.tools == tuple(tools.split())
    assert skill.instruction


def test_there_are_no_others() -> None:
    assert len(SKILLS) == len(ONE_TOOL) + len(SEVERAL)


def test_a_skill_is_there_when_all_its_tools_are() -> None:
    ids = {each.spec.tool_id for each in TOOLS}
    assert set(USABLE) == {each for each, skill in SKILLS.items() if ids.issuperset(skill.tools)}
    assert "read_text_file" in USABLE
