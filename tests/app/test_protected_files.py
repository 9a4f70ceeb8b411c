"""Files that a project loaded are protected under every name."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest

from penstock.app.project import load_project
from penstock.app.reload import ProjectReloader
from penstock.app.runtime import Runtime
from penstock.app.settings import load
from penstock.app.trial.mocks import Mocks
from penstock.core.call_errors import NotPermitted
from penstock.resources.project.access import OPEN, Access
from penstock.resources.project.files import ProjectFiles
from tests.kit.project import ProjectFolder
from tests.kit.trials import tried

SCRIPT = 'import {{ x }} from "{0}";\nexport async function run() {{ return x; }}\n'
HANDLER = "export default async function (ctx: unknown) { return { status: 'complete' }; }\n"
SKILL = """
    skill_id: helper
    name: Helper
    description: Helps.
    instruction_file: about.txt
"""
FLOW = """
    name: demo
    description: Runs code.
    steps:
      - {id: one, type: code, target: src/step.mts}
      - {id: two, type: code, target: src/missing.mts}
"""
FILES = {
    "scripts/run.mts": SCRIPT.format("./parts/x.ts"),
    "scripts/parts/x.ts": 'import d from "./d.json" with { type: "json" };\nexport const x = d;\n',
    "scripts/parts/d.json": "1",
    "scripts/run.tool.yaml": """
        name: run
        description: Runs.
        input_schema: {type: object}
        execution: {type: script, script_file: run.mts}
    """,
    "scripts/broken.tool.yaml": """
        name: broken
        description: Imports what is missing.
        input_schema: {type: object}
        execution: {type: script, script_file: broken.js}
    """,
    "scripts/broken.js": SCRIPT.format("./not_there.ts"),
    "help/helper.skill.yaml": SKILL,
    "help/about.txt": "Be kind.",
    "prompts/main.prompts.yaml": "preamble: Hello.\n",
    "flows/demo.yaml": FLOW,
    "src/step.mts": HANDLER,
    "src/free.mts": "export {};\n",
    "real/agent.md": "---\nname: linked\ndescription: x\n---\nHello\n",
    "lib/prices.py": "TABLE = 1\n",
    "tools/shop.py": """
        import importlib.util
        from pathlib import Path
        place = Path(__file__).parents[1] / "lib/prices.py"
        spec = importlib.util.spec_from_file_location("prices_of_a_test", place)
        module = importlib.util.module_from_spec(spec)
        import sys
        sys.modules["prices_of_a_test"] = module
        spec.loader.exec_module(module)
    """,
}
LOADED = (
    *("scripts/run.mts", "scripts/parts/x.ts", "scripts/parts/d.json", "scripts/broken.js"),
    *("scripts/not_there.ts", "scripts/run.tool.yaml", "help/about.txt", "help/new.txt"),
    *("prompts/main.prompts.yaml", "flows/demo.yaml", "src/step.mts", "src/missing.mts"),
    *("real/agent.md", "lib/prices.py", "tools/shop.py", "tools/new.py", "Scripts/Run.MTS"),
)
IMPORTABLE = (
    *("json.py", "httptools.py", "uvloop.pyc", "fast.cpython-311-x86_64-linux-gnu.so", "w.pyd"),
    *("json/__init__.py", "sitecustomize.py", "evil.pth", "HttpTools.PY", "new.py"),
    *("evil-1.0.dist-info/entry_points.txt", "evil.egg-info/entry_points.txt", "evil.egg-info"),
    "__pycache__/json.cpython-311.pyc",
)
FREE = ("src/free.mts", "scripts/notes.txt", "real/other.md", "lib/other.py", "README.md")


async def test_a_file_that_would_be_imported_first_is_protected(
    written: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in the project has its folder on the path: `json.py` there would be run next."""
    async with written.opened() as runtime:
        assert protected(files_of(runtime), IMPORTABLE) == []
        monkeypatch.syspath_prepend(written.root)
        assert protected(files_of(runtime), IMPORTABLE) == [*IMPORTABLE]
        assert protected(files_of(runtime), ["src/json.py", "notes.txt", "src/new/part.py"]) == []


async def test_modules_of_a_package_on_the_path_are_protected(
    written: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["libs/shop/parts/new.py", "libs/other/new.py", "libs/shop/table.csv"]
    monkeypatch.syspath_prepend(written.root / "libs")
    async with written.opened() as runtime:
        assert protected(files_of(runtime), names) == []
        written.write("libs/shop/__init__.py", "")
        assert protected(files_of(runtime), names) == names[:1]
        access = files_of(runtime).access
        assert access.why_no_link("libs")
        assert access.why_no_link("libs/new")
        assert not access.why_no_link("docs")


async def test_an_archive_on_the_path_is_protected_even_if_missing(
    written: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python imports from zip files, whatever their names are, and from folders inside them."""
    names = ["libs/all.zip", "libs/old.egg", "build", "build/part", "LIBS/All.Zip"]
    others = ["libs/other.zip", "libs/all.zip.txt", "build/part/notes.txt"]
    for entry in ("libs/all.zip", "libs/old.egg", "build/part"):
        monkeypatch.syspath_prepend(written.root / entry)
    async with written.opened() as runtime:
        assert protected(files_of(runtime), [*names, *others]) == names


async def test_a_link_on_the_path_is_not_replaced(
    written: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (written.root / "real").mkdir(exist_ok=True)
    (written.root / "libs").symlink_to("real")
    monkeypatch.syspath_prepend(written.root / "libs")
    async with written.opened() as runtime:
        names = ["libs", "libs/json.py", "real/json.py"]
        assert protected(files_of(runtime), names) == names


async def test_an_archive_that_a_module_came_from_is_protected(written: ProjectFolder) -> None:
    place = written.root / "parts.bin"
    with ZipFile(place, "w") as archive:
        archive.writestr("part_of_a_test.py", "X = 1\n")
    sys.path.insert(0, str(place))
    try:
        __import__("part_of_a_test")
    finally:
        sys.path.remove(str(place))
    try:
        async with written.opened() as runtime:
            assert protected(files_of(runtime), ["parts.bin", "other.bin"]) == ["parts.bin"]
    finally:
        del sys.modules["part_of_a_test"]


async def test_new_modules_of_an_imported_package_are_protected(written: ProjectFolder) -> None:
    """An editable install finds its package by a finder of its own: no entry of the path says so.

    Its folder may have no `__init__.py`, and a module that nothing imported yet is imported next.
    """
    package = ModuleType("editable_of_a_test")
    package.__path__ = [str(written.root / "src/shop")]
    sys.modules["editable_of_a_test"] = package
    new = ["src/shop/late.py", "src/shop/deep/late.so"]
    try:
        async with written.opened() as runtime:
            files = files_of(runtime)
            assert protected(files, [*new, "src/shop/table.csv", "src/shopping.py"]) == new
            assert files.access.why_no_link("src/shop")
            assert files.access.why_no_link("src/shop/deep")
    finally:
        del sys.modules["editable_of_a_test"]


@pytest.mark.parametrize("has_init", [True, False])
async def test_a_project_that_is_itself_a_package_is_protected(
    written: ProjectFolder, monkeypatch: pytest.MonkeyPatch, *, has_init: bool
) -> None:
    monkeypatch.syspath_prepend(written.root.parent)
    if has_init:
        written.write("__init__.py", "")
    async with written.opened() as runtime:
        names = ["__init__.py", "deep/new.py"]
        assert protected(files_of(runtime), names) == names[: 1 + has_init]


async def test_a_tool_on_trial_cannot_write_loaded_files(
    written: ProjectFolder,
) -> None:
    values = {"path": "scripts/parts/x.ts", "content": "export const x = 2;"}
    envelope = await tried(written, "write", values, Mocks())
    assert envelope.error
    assert envelope.error.message == '"scripts/parts/x.ts" is protected.'


@pytest.mark.programs
def test_the_command_line_imports_nothing_from_the_folder_it_is_started_in(tmp_path: Path) -> None:
    for name in ("httptools", "uvloop", "typer"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    command = [sys.executable, "-m", "penstock", "--help"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.fixture
def written(project: ProjectFolder) -> Iterable[ProjectFolder]:
    for name, text in FILES.items():
        project.write(name, text)
    (project.root / "agents").mkdir()
    (project.root / "agents/linked.md").symlink_to("../real/agent.md")
    yield project
    sys.modules.pop("prices_of_a_test", None)


def files_of(runtime: Runtime, access: Access = OPEN) -> ProjectFiles:
    folder = runtime.parts.flows.materials.folder
    assert folder is not None
    return folder.files(access)


def protected(files: ProjectFiles, names: Iterable[str]) -> list[str]:
    """Return the names that agents must not write."""
    messages = {}
    for name in names:
        try:
            files.writable(name)
        except NotPermitted as error:
            messages[name] = str(error)
    assert {*messages.values()} <= {f'"{name}" is protected.' for name in names}
    return [*messages]


async def test_loaded_and_loadable_files_are_protected(written: ProjectFolder) -> None:
    """§12.2: "every script, module and handler that the project's own reading reached"."""
    async with written.opened() as runtime:
        files = files_of(runtime)
        assert protected(files, LOADED) == [*LOADED]
        assert protected(files, FREE) == []
        own = files_of(runtime, Access(write=("scripts/**",)))
        assert protected(own, ["scripts/run.mts"]) == []
        chat = files_of(runtime, Access(write=("scripts/**",), is_trusted=False))
        assert protected(chat, ["scripts/run.mts"]) == ["scripts/run.mts"]


async def test_a_new_edition_and_a_new_flow_are_protected_at_once(written: ProjectFolder) -> None:
    async with written.opened() as runtime:
        files = files_of(runtime)
        names = ["src/free.mts", "scripts/parts/later.ts"]
        assert protected(files, names) == []
        written.write("flows/more.yaml", FLOW.replace("src/step.mts", "src/free.mts"))
        assert protected(files, names) == names[:1]
        written.write("scripts/parts/later.ts", "export const x = 1;\n")
        written.write("scripts/run.mts", SCRIPT.format("./parts/later.ts"))
        settings = load(written.root, cache_dir=str(written.cache))
        first = load_project(settings)
        reloader = ProjectReloader(runtime=runtime, settings=settings, first=first)
        reloader.take(reloader.read())
        assert protected(files, names) == names


async def test_the_environment_of_python_is_protected_where_it_is_in_the_project(
    written: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(written.root / ".venv"))
    (written.root / ".venv").mkdir()
    async with written.opened() as runtime:
        names = [".venv/lib/python3.11/site-packages/sitecustomize.py", ".venv"]
        assert protected(files_of(runtime), names) == names


async def test_a_module_that_was_imported_through_a_link_is_protected_where_it_is(
    written: ProjectFolder,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "file.py").symlink_to(written.root / "lib/other.py")
    (elsewhere / "folder").symlink_to(written.root / "real")
    for number, name in enumerate(("file.py", "folder/other.md", "folder/../README.md")):
        module = ModuleType(f"linked_{number}")
        module.__file__ = f"{elsewhere}/{name}"
        monkeypatch.setitem(sys.modules, module.__name__, module)
    async with written.opened() as runtime:
        names = ["lib/other.py", "real/other.md", "README.md", "src/free.mts"]
        assert protected(files_of(runtime), names) == names[:3]
