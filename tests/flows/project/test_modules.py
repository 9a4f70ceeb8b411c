"""The modules of code steps: of a project, and as stored with a run."""

from pathlib import Path

from penstock.core.events.flow_events import Output
from penstock.flows.definition import Flow
from penstock.flows.project.files import file_at
from penstock.flows.project.modules import ModuleLoader, RunFiles, module_loader
from penstock.flows.steps.code import Code
from penstock.flows.steps.kind import LoadModule
from penstock.sandbox.compiler.script_files import ReadFailure
from penstock.sandbox.script import LoadResult

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


def test_a_run_stores_every_file_of_its_modules(tmp_path: Path, modules: ModuleLoader) -> None:
    """`flow_started` holds the hashes, or the texts, of handlers."""
    files: dict[str, str | bytes] = {
        "flows/handlers/demo/a.mts": "import './lib/x.ts'; import './gone.ts';" + GOOD,
        "flows/handlers/demo/lib/x.ts": "import '../y.js'",
        "flows/handlers/demo/y.js": "",
        "flows/handlers/demo/other.ts": GOOD,
        "b.js": b"\xff export default 1",
    }
    texts = modules.texts(FLOW, file_at("flows/demo.yaml", written(tmp_path, files), ""))
    assert texts == {name: files[name] for name in list(files)[:3]}


def test_files_outside_the_project_are_not_stored(tmp_path: Path, modules: ModuleLoader) -> None:
    root = written(tmp_path, {"secret.ts": GOOD, "p/flows/handlers/demo/x.ts": ""}) / "p"
    (root / "flows/handlers/demo/a.ts").symlink_to(tmp_path / "secret.ts")
    assert modules.texts(FLOW, file_at("flows/demo.yaml", root, "")) == {}


def test_stored_texts_are_read_as_files_of_one_folder() -> None:
    texts = RunFiles({"f/a.ts": "abc", "f/g/b.ts": "", "ff/c.ts": ""}, "f")
    assert (texts.read("a.ts", 2), texts.read("c.ts", 9)) == (b"ab", ReadFailure.MISSING)
    assert list(texts.names()) == ["a.ts", "g/b.ts"]
    assert list(RunFiles({"a.ts": ""}, "").names()) == ["a.ts"]


def test_the_reader_of_modules_is_opened_once_on_first_use() -> None:
    opened: list[LoadModule] = []

    def open_reader() -> LoadModule:
        opened.append(lambda path, files: LoadResult())
        return opened[0]

    loader = ModuleLoader(open_reader)
    assert opened == []
    for _ in range(2):
        assert loader.find_fault_in("f/a.ts", {}) is None
    assert len(opened) == 1


def test_a_project_has_the_reader_of_scripts(tmp_path: Path) -> None:
    (fault,) = module_loader(None).load("a.py", RunFiles({}, "")).problems
    assert fault.code == "import-extension"
