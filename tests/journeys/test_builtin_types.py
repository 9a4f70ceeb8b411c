"""The declared types of built-in tools match their results."""

import json
from typing import Any

import pytest

from penstock.app.project import load_project
from penstock.app.script_types.type_check import check_types
from penstock.app.settings import load
from penstock.builtins import TOOLS, download, notify
from penstock.builtins.artifacts import TOOLS as ARTIFACTS
from penstock.builtins.ask_user import TOOLS as ASKING
from penstock.core.errors import Suspend
from penstock.resources.channels import SECRETS, Channel, ChannelKind
from penstock.testing.clock import FakeClock
from penstock.testing.resources import MemoryVault
from penstock.tools.python.function import tool
from penstock.tools.tool import Tool
from tests.kit.project import ProjectFolder
from tests.kit.scripted_egress import Answers, answered
from tests.kit.workbench import Desk, open_desk

pytestmark = pytest.mark.programs
BOOK, COPY, TABLE, NOTE = "task://a.xlsx", "task://b.xlsx", "task://a.csv", "task://a.txt"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_available_skills", {}),
    ("activate_skill", {"skill_id": "demo"}),
    ("read_skill_resource", {"skill_id": "demo", "resource_id": "resource.1", "mode": "text"}),
    (
        "read_skill_resource",
        {
            "skill_id": "demo",
            "resource_id": "resource.1",
            "mode": "import_to_vfs",
            "destination_path": "task://r.txt",
        },
    ),
    (
        "import_skill_asset",
        {"skill_id": "demo", "asset_path": "more.txt", "destination_path": "task://m.txt"},
    ),
    ("list_tool_result_artifacts", {}),
    ("write_text_file", {"path": NOTE, "content": "a"}),
    ("read_text_file", {"path": NOTE}),
    ("read_file_base64", {"path": NOTE}),
    ("read_dir", {"path": "task://"}),
    ("zip", {"input_paths": [NOTE], "output_path": "task://a.zip"}),
    ("unzip", {"input_path": "task://a.zip", "output_dir": "task://out"}),
    ("csv_create", {"path": TABLE, "values": [["a", 1]]}),
    ("csv_edit_cells", {"path": TABLE, "assignments": [{"cell": "B2", "value": 2}]}),
    ("csv_inspect", {"path": TABLE}),
    ("csv_read", {"path": TABLE, "range": "A1:C2"}),
    ("excel_create", {"path": BOOK, "values": [["a", 1], [True, "=A1"]]}),
    ("excel_edit_cells", {"path": BOOK, "assignments": [{"cell": "B2", "value": 2}]}),
    ("excel_inspect", {"path": BOOK}),
    ("excel_read", {"path": BOOK, "range": "A1:C2"}),
    ("excel_copy_cell_style", {"path": BOOK, "source_cell": "A1", "target_cells": ["B1"]}),
    ("excel_clear_cell_style", {"path": BOOK, "cells": ["B1"]}),
    ("excel_copy_row", {"path": BOOK, "source_row": {"row": 1}, "target_rows": [3]}),
    (
        "excel_copy_column",
        {"path": BOOK, "source_column": {"column": "A"}, "target_columns": ["D"]},
    ),
    (
        "excel_edit_structure",
        {"path": BOOK, "operations": [{"kind": "insert_rows", "index": 1, "count": 2}]},
    ),
    ("excel_auto_fit_row", {"path": BOOK, "row": 1}),
    (
        "excel_apply_changes",
        {
            "path": BOOK,
            "operations": [{"kind": "delete_columns", "index": 3}],
            "assignments": [{"cell": "A1", "value": "x"}],
            "row_copies": [{"source_row": {"row": 1}, "target_rows": [5]}],
            "column_copies": [{"source_column": {"column": "A"}, "target_columns": ["E"]}],
            "style_copies": [{"source_cell": "A1", "target_cells": ["B2"]}],
            "auto_fit_rows": [1],
        },
    ),
    ("media_push_vfs", {"input_path": NOTE}),
    ("media_push_base64", {"base64_data": "YQ==", "media_type": "text/plain"}),
    ("media_fetch", {"media_id": "$", "output_path": "task://media.txt"}),
    ("get_media_download_url", {"media_id": "$"}),
    ("send_media_attachment", {"media_id": "$"}),
    ("create_schedule", {"name": "News", "cron": "@daily", "message": "What is new?"}),
    ("get_schedule_info", {}),
]
SCRIPT = """
export async function run({ calls }: any) {
  const outputs: any[] = [];
  let media_id: any;
  for (const [tool_id, input] of calls) {
    if (input.media_id) input.media_id = media_id;
    const done = await flo.callTool({ tool_id, input });
    if (done.status !== "success") throw new Error(`${tool_id}: ${done.error.message}`);
    media_id = done.output.media_id ?? media_id;
    outputs.push(done.output);
  }
  return outputs;
}
"""
SKILL = """
skill_id: demo
name: Demo
description: For a test.
instruction: None.
"""


@tool(effect="none")
async def large() -> Any:
    """Return something large."""
    return ["é" * 100] * 200


async def of_scripts(project: ProjectFolder) -> list[tuple[str, Any]]:
    """Return what tools returned to a script, by name."""
    named = sorted({name for name, _ in CALLS})
    project.tool("all", SCRIPT, script_tools=json.dumps(named))
    project.write("skills/demo/demo.skill.yaml", SKILL)
    project.write("skills/demo/more.txt", "more")
    async with project.opened() as runtime:
        envelope = await runtime.call("all", {"calls": CALLS})
    assert envelope.ok, envelope.error
    return [(name, outcome) for (name, _), outcome in zip(CALLS, envelope.output, strict=True)]


async def of_others() -> list[tuple[str, Any]]:
    """Return what those tools returned that need a person, a server or a model's own result."""
    vault, channels = (
        MemoryVault(FakeClock()),
        [Channel(name="c", kind=ChannelKind.SLACK, vault_key="hook")],
    )
    await vault.set(SECRETS, "hook", "https://hooks.test/a")
    egress = Answers(answered(b"x", content_type="text/plain"), answered(b"ok"))
    tools: list[Tool] = [large, *ARTIFACTS, *ASKING, *download.TOOLS, *notify.TOOLS]
    desk = await open_desk(*tools, vault=vault, egress=egress, channels=channels)
    url = {"url": "https://a.test/x", "output_path": "task://x"}
    hello = {"channel_name": "c", "message": {"kind": "text", "text": "Hi"}}
    items = [
        ("download_url_to_file", await desk.made("download_url_to_file", **url)),
        ("send_notification", await desk.made("send_notification", **hello)),
        (
            "ask_user",
            await answer(desk, {"text": "red"}, options=[{"label": "Red", "value": "red"}]),
        ),
        ("ask_user", await answer(desk, {"value": True}, type="confirm")),
    ]
    await desk.bench.call("large", {})
    artifact = next(each.artifact_id for each in await desk.bench.settled() if each.artifact_id)
    read = await desk.made("read_tool_result_artifact", artifact_id=str(artifact))
    listed = await desk.made("list_tool_result_artifacts")
    return [*items, ("read_tool_result_artifact", read), ("list_tool_result_artifacts", listed)]


async def answer(desk: Desk, body: dict[str, Any], **form: Any) -> Any:
    fields = {"question": f"Which of {len(form)} {body}?", **form}
    with pytest.raises(Suspend):
        await desk.call("ask_user", **fields)
    await desk.bench.answer(body)
    desk.bench.enter()
    return await desk.made("ask_user", **fields)


@pytest.mark.slow("starts deno, which reads the declarations of its language first")
async def test_every_built_in_tool_returns_its_declared_type(project: ProjectFolder) -> None:
    """§21: `FloToolMap` holds all built-ins; §17: their outputs."""
    outputs = [*await of_scripts(project), *await of_others()]
    lines = [
        f'const o{at}: FloToolMap["{name}"]["output"] = {json.dumps(output)};'
        for at, (name, output) in enumerate(outputs)
    ]
    project.tool("all", "\n".join([*lines, "export const run = () => null;"]))
    wrong = [str(each) for each in check_types(load_project(load(project.root)))]
    assert wrong == [], "\n".join(wrong)
    declared = {each.spec.tool_id for each in TOOLS if each.spec.output_schema is None}
    assert {name for name, _ in outputs} <= declared
