"""Compiling modules to scripts, with their two virtual files."""

import pytest

from penstock.flows.project.module_reader import HARD_ERROR, STEP
from penstock.flows.project.modules import ModuleLoader, RunFiles

GOOD = "export default () => {};"


def test_a_module_is_compiled_with_two_virtual_files(modules: ModuleLoader) -> None:
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
def test_problems_of_a_module_have_lines(
    modules: ModuleLoader,
    name: str,
    text: str,
    fault: tuple[int, int, str] | None,
) -> None:
    texts = {f"flows/{name}": text, "flows/bad.js": "let 1"}
    problem = modules.find_fault_in(f"flows/{name}", texts)
    assert (problem is None) == (fault is None), problem
    if problem is not None and fault is not None:
        assert (problem.line, problem.column) == fault[:2], problem
        assert fault[2] in problem.problem
