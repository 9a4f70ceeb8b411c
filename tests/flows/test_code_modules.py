"""The modules of code steps: read from a folder or from texts, with `FlowHardError` beside them."""

from pathlib import Path

import pytest

from penstock.core.step import Output
from penstock.flows.code_modules import (
    HARD_ERROR,
    STEP,
    ModuleLoader,
    RunFiles,
)
from penstock.flows.definition import Code, Flow
from penstock.flows.files import file_at
from penstock.sandbox.reading.folder import Absence

GOOD = "export default () => {};"
FLOW = Flow(
    name="demo",
    description="d",
    steps=(
        Code(step_id="a", outputs=(Output(name="n"),)),
        Code(step_id="b", target="../b.js"),
        Code(step_id="c"),
    ),
)


def written(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def test_a_module_stands_between_two_of_ours(modules: ModuleLoader) -> None:
    text = "import { FlowHardError } from '@x/pi-flows'; export default () => {};"
    loaded = modules.load("f/a.ts", RunFiles({"f/a.ts": text}, "f"))
    assert loaded.script is not None
    assert loaded.script.entry == STEP
    assert set(loaded.script.modules) == {STEP, HARD_ERROR, "a.ts"}
    assert loaded.script.modules["a.ts"].imports == {"@x/pi-flows": HARD_ERROR}


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.ts", GOOD, None),
        ("a.mjs", "export function run() {}", None),
        ("a.ts", "export const x = 1;", (1, 1, '"a.ts" must export a function')),
        ("a.ts", "", (1, 1, '"a.ts" must export a function')),
        ("a.ts", f"{GOOD}\n  enum A {{ B }}", (2, 3, "enum is not supported")),
        ("a.ts", f"import 'x';\n{GOOD}", (1, 8, 'package import "x" is not allowed')),
        ("a.ts", f"import 'pi-flows';\n{GOOD}", (1, 8, "package import")),
        ("a.ts", f"import {{ No }} from 'x/pi-flows';\n{GOOD}", (1, 10, 'not export "No"')),
        ("a.ts", f"import '../b.ts';\n{GOOD}", (1, 8, "leads out of flows")),
        ("a.ts", "export default (", (1, 17, "Expression expected")),
        ("a.js", "import './bad.js'; export default 1", (1, 1, "flows/bad.js:1:5: ")),
        ("a.py", GOOD, (1, 1, '"a.py" must end in .mts, .ts, .mjs or .js')),
    ],
)
def test_what_is_wrong_with_a_module_is_told_by_line(
    tmp_path: Path,
    modules: ModuleLoader,
    name: str,
    text: str,
    fault: tuple[int, int, str] | None,
) -> None:
    root = written(tmp_path, {f"flows/{name}": text, "flows/bad.js": "let 1"})
    found = modules.find_fault(f"flows/{name}", root)
    assert (found is None) == (fault is None), found
    if found is not None and fault is not None:
        assert (found.line, found.column) == fault[:2], found
        assert fault[2] in found.problem


def test_a_run_keeps_all_that_its_modules_are_made_of(
    tmp_path: Path, modules: ModuleLoader
) -> None:
    """`flow_started` holds the hashes, or the texts, of handlers."""
    files: dict[str, str | bytes] = {
        "flows/handlers/demo/a.mts": "import './lib/x.ts'; import './gone.ts';" + GOOD,
        "flows/handlers/demo/lib/x.ts": "import '../y.js'",
        "flows/handlers/demo/y.js": "",
        "flows/handlers/demo/other.ts": GOOD,
        "b.js": b"\xff export default 1",
    }
    found = modules.texts(FLOW, file_at("flows/demo.yaml", written(tmp_path, files), ""))
    assert found == {name: files[name] for name in list(files)[:3]}


def test_nothing_outside_is_kept(tmp_path: Path, modules: ModuleLoader) -> None:
    root = written(tmp_path, {"secret.ts": GOOD, "p/flows/handlers/demo/x.ts": ""}) / "p"
    (root / "flows/handlers/demo/a.ts").symlink_to(tmp_path / "secret.ts")
    assert modules.texts(FLOW, file_at("flows/demo.yaml", root, "")) == {}


def test_texts_are_files_of_one_folder() -> None:
    texts = RunFiles({"f/a.ts": "abc", "f/g/b.ts": "", "ff/c.ts": ""}, "f")
    assert (texts.read("a.ts", 2), texts.read("c.ts", 9)) == (b"ab", Absence.MISSING)
    assert list(texts.names()) == ["a.ts", "g/b.ts"]
    assert list(RunFiles({"a.ts": ""}, "").names()) == ["a.ts"]
