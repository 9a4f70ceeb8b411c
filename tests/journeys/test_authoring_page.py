"""Every file of the authoring pages is written, every command run, in the order of the page."""

import json
import re
import shlex
from pathlib import Path

import pytest

import penstock
from penstock.cli.main import main
from scripts.flo_page import functions

pytestmark = pytest.mark.programs
DOCS = Path(penstock.__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow("runs a command after the other, and deno")
@pytest.mark.parametrize(("page", "commands"), [("authoring.md", 14), ("scripts/flo.md", 8)])
def test_every_command_of_the_page_runs(
    page: str,
    commands: int,
    tmp_path: Path,
    machine_code: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(machine_code))
    monkeypatch.chdir(tmp_path)
    codes: list[int] = []
    out = result = ""
    for language, file, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if file:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(text, encoding="utf-8")
        elif language == "sh":
            codes += [main(shlex.split(line)[1:]) for line in text.splitlines()]
            out, result = capsys.readouterr()
        elif language == "json":
            assert json.loads(out.splitlines()[-1]) == json.loads(text)
        elif language == "text":
            assert (codes.pop(), result) == (1, text)
    assert codes == [0] * commands


def test_every_function_of_flo_is_described() -> None:
    values = {each.name: each.meaning for each in functions()}
    assert {"callTool", "task.step", "state.get", "browser.run"} <= set(values)
    assert [name for name, meaning in values.items() if not meaning] == []
