"""Small projects of manifests, and their findings."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from penstock.manifest.bundle import Bundle, load_bundle
from penstock.manifest.references import ProjectNames

NEIGHBOURS = ProjectNames(
    builtin_tools=frozenset({"read_dir", "read_text_file", "send_media_attachment", "ask_user"}),
    builtin_skills={"read_dir": ("read_dir",)},
    open_tools=frozenset({"ask_user"}),
)
CAPTURE = """name: capture_example
description: Open a page and return the current URL.
input_schema:
  type: object
  properties:
    url:
      type: string
  required: [url]
  additionalProperties: false
execution:
  type: script
  script_file: scripts/capture_example.mts
  entrypoint: run
timeout_ms: 30000
"""
PUBLISH = """name: publish_report
description: Publish a prepared report.
direct_call: true
script_tools:
- send_media_attachment
input_schema:
  type: object
  additionalProperties: false
execution:
  type: script
  script_file: scripts/publish_report.mts
  entrypoint: run
"""
TOOL = """
name: a
description: Does it.
input_schema: {type: object}
execution: {type: script, script: "export function run() {}"}
"""
SKILL = """
skill_id: s
name: S
description: Is for it.
instruction: Do it.
"""


def tool(more: str = "", **changed: str) -> str:
    """Return a tool manifest with other lines; a line that is empty is left out."""
    return _manifest(TOOL, more, changed)


def skill(more: str = "", **changed: str) -> str:
    """Return a skill manifest with other lines; a line that is empty is left out."""
    return _manifest(SKILL, more, changed)


def _manifest(text: str, more: str, changed: dict[str, str]) -> str:
    lines = dict(line.split(": ", 1) for line in text.strip().splitlines()) | changed
    kept = [f"{key}: {value}" for key, value in lines.items() if value]
    return "\n".join([*kept, dedent(more).strip("\n")]).rstrip() + "\n"


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write the files of a project."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def load(root: Path, files: Mapping[str, str | bytes]) -> Bundle:
    """Return the bundle of these files."""
    return load_bundle(write(root, files), NEIGHBOURS)


def findings(root: Path, files: Mapping[str, str | bytes]) -> list[str]:
    """Return what is found in these files, a line each."""
    return [str(each) for each in load(root, files).diagnostics]
