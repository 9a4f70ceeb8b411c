"""Runs the scripts of the page at `/` in deno."""

import json
import subprocess
from pathlib import Path
from typing import Any

from deno import find_deno_bin

from penstock.server import page

SCRIPTS = Path(page.__file__).with_suffix("")
PROGRAM = """
import {{ fold, newView }} from "{folder}/view.js";
import {{ lookIntoRuns }} from "{folder}/runs.js";
const {{ said, looks, end }} = {given};
const view = newView();
for (const [id, frame] of said) fold(view, frame, id);
const shown = [];
for (const answers of looks) {{
  await lookIntoRuns(view, async (path) => answers[path]);
  shown.push(structuredClone(view.items));
  if (end) fold(view, end[1], end[0]);
}}
console.log(JSON.stringify({{ state: view.state, shown }}));
"""


def run_page(folder: Path, given: Any, source: str = PROGRAM) -> dict[str, Any]:
    """Fold frames, then look into runs as often as there are answers of the API."""
    program = folder / "program.mjs"
    program.write_text(source.format(folder=SCRIPTS.as_uri(), given=json.dumps(given)))
    ran = subprocess.run(
        [find_deno_bin(), "run", "--no-config", "--no-remote", "--no-lock", str(program)],
        capture_output=True,
        check=False,
        env={"DENO_DIR": str(folder / "deno"), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"},
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    seen: dict[str, Any] = json.loads(ran.stdout)
    return seen
