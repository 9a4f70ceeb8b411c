"""Loading returns the script of a manifest, or all of its problems at once."""

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.core.clock import SystemClock
from penstock.core.diagnostics import Diagnostic, Severity
from penstock.sandbox.compiler.load_script import (
    InlineScript,
    ScriptReference,
    absent_globals,
    load,
    spanned,
)
from penstock.sandbox.compiler.parsers import Lexer, TypeScript
from penstock.sandbox.compiler.scanner import Lines, Scanner
from penstock.sandbox.compiler.script_files import Folder
from penstock.sandbox.script import RUNTIME_NAMES, Bounds, LoadResult, Script
from penstock.sandbox.wasm.quickjs import QuickJs
from penstock.testing.bridge import FakeBridge
from tests.sandbox.files import InMemory

GOOD = {
    "main.mts": (
        "import type { Place } from './lib/place.mts';\n"
        "import { near, type Far } from './lib/place.mts';\n"
        "import places from './places.json' with { type: 'json' };\n"
        "import * as flo from 'flo:runtime';\n"
        "import { callTool } from 'flo:runtime';\n"
        "export default async (input: Place) => near(places);\n"
    ),
    "lib/place.mts": "export interface Place {}\nexport type Far = 1; export * from './near.js'\n",
    "lib/near.js": "import '../main.mts'; export const near = () => 1\n",
    "places.json": '["Oslo"]',
}


def loaded(scanner: Scanner, files: Mapping[str, str], entrypoint: str = "default") -> LoadResult:
    reference = ScriptReference(
        files=InMemory(files), folder="tools", entry=next(iter(files)), entrypoint=entrypoint
    )
    return load(reference, scanner)


def reported(result: LoadResult) -> list[str]:
    assert (result.script is None) == bool(result.problems)
    return [str(problem) for problem in result.problems]


def script(scanner: Scanner, files: Mapping[str, str]) -> Script:
    result = loaded(scanner, files)
    assert reported(result) == []
    assert result.script is not None
    return result.script


def test_a_script_is_ready_to_run(scanner: Scanner) -> None:
    result = script(scanner, GOOD)
    assert (result.entry, result.entrypoint) == ("main.mts", "default")
    assert list(result.modules) == ["main.mts", "lib/place.mts", "places.json", "lib/near.js"]
    assert result.modules["main.mts"].imports == {
        "./lib/place.mts": "lib/place.mts",
        "./places.json": "places.json",
        "flo:runtime": "flo:runtime",
    }
    assert [name for name, module in result.modules.items() if module.is_json] == ["places.json"]
    assert ": Place" not in result.modules["main.mts"].source


def test_the_digest_changes_with_any_module(scanner: Scanner) -> None:
    digests = {
        script(scanner, GOOD).digest,
        script(scanner, GOOD | {"places.json": "[]"}).digest,
        script(scanner, GOOD | {"lib/near.js": "export const near = 1\n"}).digest,
        script(scanner, {"other.mts": GOOD["main.mts"], **GOOD}).digest,
    }
    assert len(digests) == 4
    assert script(scanner, GOOD).digest == script(scanner, dict(GOOD)).digest


BROKEN = {
    "main.mts": (
        "import { nearer } from './lib/place.mts';\n"
        "import { Place, fare } from './lib/place.mts';\n"
        "import places from './places.json'; import './gone.mts'; import 'lodash';\n"
        "import { callTools } from 'flo:runtime'; await import('./x.mts');\n"
        "export const rum = () => import.meta;\n"
    ),
    "lib/place.mts": (
        "import '../../x.mts';\nexport interface Place {}\nexport const near = 1, far = 2\n"
    ),
    "places.json": "[1,]",
    "gong.mts": "",
}
PROBLEMS = [
    'tools/lib/place.mts:1:8: error import-parent: import "../../x.mts" leads out of tools',
    (
        'tools/main.mts:1:1: error entrypoint-missing: "main.mts" does not export "run"; '
        'it exports "rum"'
    ),
    (
        'tools/main.mts:1:10: error import-name-missing: "./lib/place.mts" does not export '
        '"nearer"; did you mean "near"?'
    ),
    (
        'tools/main.mts:2:10: error import-name-missing: "./lib/place.mts" does not export '
        '"Place"; use import type'
    ),
    (
        'tools/main.mts:2:17: error import-name-missing: "./lib/place.mts" does not export '
        '"fare"; did you mean "far"?'
    ),
    (
        'tools/main.mts:3:20: error import-json: import of "./places.json" needs '
        'with { type: "json" }'
    ),
    (
        'tools/main.mts:3:44: error import-missing: "./gone.mts" does not exist; '
        'did you mean "./gong.mts"?'
    ),
    (
        'tools/main.mts:3:65: error import-bare: package import "lodash" is not allowed; '
        'use a relative path such as "./lodash.mts"'
    ),
    (
        'tools/main.mts:4:10: error import-name-missing: "flo:runtime" does not export '
        '"callTools"; did you mean "callTool"?'
    ),
    "tools/main.mts:4:48: error import-dynamic: dynamic import() is not allowed",
    "tools/main.mts:5:26: error import-meta: import.meta is not allowed",
    "tools/places.json:1:4: error script-syntax: not valid JSON: Expecting value",
]


def test_all_problems_of_all_files_are_reported_together(scanner: Scanner) -> None:
    assert reported(loaded(scanner, BROKEN, "run")) == PROBLEMS


INDENTED = InlineScript(
    text="import 'x';\nexport const run = () => 1", file="tools/a.tool.yaml", line=7, column=5
)


def test_problems_of_an_inline_script_are_at_lines_of_the_manifest(scanner: Scanner) -> None:
    """M12: load errors point into the YAML file."""
    reference = ScriptReference(
        files=InMemory({}), folder="tools", entry=INDENTED, entrypoint="start"
    )
    assert reported(load(reference, scanner)) == [
        (
            'tools/a.tool.yaml:7:5: error entrypoint-missing: the script does not export "start"; '
            'it exports "run"'
        ),
        (
            'tools/a.tool.yaml:7:12: error import-bare: package import "x" is not allowed; '
            'use a relative path such as "./x.mts"'
        ),
    ]


def test_problems_of_a_quoted_script_are_at_its_start(scanner: Scanner) -> None:
    """§14: "A range never … leaves the line of a scalar"."""
    entry = replace(INDENTED, is_verbatim=False, text="export const run = 1;\n\n  import 'x';")
    result = load(ScriptReference(files=InMemory({}), entry=entry, entrypoint="run"), scanner)
    assert [(each.line, each.column, each.code) for each in result.problems] == [
        (7, 5, "import-bare")
    ]


def test_an_inline_script_imports_from_the_folder_of_its_manifest(scanner: Scanner) -> None:
    """M12: imports resolve from the manifest's directory."""
    text = "import { a } from './lib/a.mts';\nexport const run = (input: string) => a"
    files = InMemory({"lib/a.mts": "export const a: number = 1"})
    reference = ScriptReference(
        files=files, entry=InlineScript(text=text, file="a.tool.yaml"), entrypoint="run"
    )
    result = load(reference, scanner).script
    assert result is not None
    assert (result.entry, list(result.modules)) == ("inline.mts", ["inline.mts", "lib/a.mts"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("'\ud800'", "a.yaml:3:1: error file-encoding: not UTF-8 at byte 1"),
        ("\0 default", "a.yaml:3:1: error script-syntax: Unexpected character '\\0'"),
        (
            "",
            (
                'a.yaml:3:1: error entrypoint-missing: the script does not export "default"; '
                "it exports nothing"
            ),
        ),
    ],
)
def test_hostile_inline_scripts_are_refused(scanner: Scanner, text: str, problem: str) -> None:
    entry = InlineScript(text=text, file="a.yaml", line=3)
    assert reported(load(ScriptReference(files=InMemory({}), entry=entry), scanner)) == [problem]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("gone.mts", 'tools/gone.mts:1:1: error file-missing: the file "gone.mts" does not exist'),
        (
            "a.tsx",
            (
                "tools/a.tsx:1:1: error ts-not-erasable: .tsx is not supported: "
                "only TypeScript that can be erased"
            ),
        ),
        (
            "a.json",
            'tools/a.json:1:1: error import-extension: "a.json" must end in .mts, .mjs, .ts or .js',
        ),
        ("a", 'tools/a:1:1: error import-extension: "a" must end in .mts, .mjs, .ts or .js'),
    ],
)
def test_an_entry_must_be_a_script(scanner: Scanner, entry: str, problem: str) -> None:
    reference = ScriptReference(
        files=InMemory({"a.tsx": "", "a.json": "1", "a": ""}), folder="tools", entry=entry
    )
    assert reported(load(reference, scanner)) == [problem]


def test_symlinks_out_of_the_folder_are_reported(scanner: Scanner, tmp_path: Path) -> None:
    (tmp_path / "secret.mts").write_text("export default 1")
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "out.mts").symlink_to("../secret.mts")
    (folder / "main.mts").write_text("import a from './out.mts'; export default a")
    reference = ScriptReference(files=Folder(folder), folder="tools", entry="main.mts")
    assert reported(load(reference, scanner)) == [
        'tools/main.mts:1:15: error import-escape: "./out.mts" leads out of tools through a symlink'
    ]
    reference = ScriptReference(files=Folder(folder), folder="tools", entry="out.mts")
    assert reported(load(reference, scanner)) == [
        'tools/out.mts:1:1: error path-escape: "out.mts" leads out of tools through a symlink'
    ]


def test_a_graph_that_is_too_large_is_reported_with_its_size(scanner: Scanner) -> None:
    files = {f"{n}.mts": f"import './{n + 1}.mts'; export default 1" for n in range(300)}
    (result,) = reported(loaded(scanner, files))
    assert result.startswith(
        "tools/0.mts:1:1: error graph-too-large: the module graph has 257 files, "
    )
    assert result.endswith(" bytes; the limits are 256 and 4194304")


@pytest.mark.slow("half a million problems are looked for")
def test_thousands_of_problems_are_reported_in_time(scanner: Scanner) -> None:
    wrong = "".join(f"import {{gone{n}}} from './a{n % 200}.mts';\n" for n in range(1_900))
    names = {f"a{n}.mts": "export const gone = 1" for n in range(100)}
    others = {f"b{n}.mts": "" for n in range(2_000)}
    result = loaded(scanner, {"main.mts": f"{wrong}export default 1", **names, **others})
    assert len(result.problems) == 1_900
    assert sum(each.suggestion is not None for each in result.problems) <= 20


def test_threads_can_load_scripts_at_the_same_time(scanner: Scanner) -> None:
    digests: list[str] = []
    threads = [
        threading.Thread(target=lambda: digests.append(script(scanner, GOOD).digest))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(digests) == 8
    assert len(set(digests)) == 1


def test_a_script_from_the_cache_is_the_same(
    tmp_path: Path, typescript: TypeScript, lexer: Lexer
) -> None:
    first, again = (script(Scanner(typescript, lexer, tmp_path / "c"), GOOD) for _ in range(2))
    assert first == again


async def test_a_loaded_script_runs(scanner: Scanner, machine_code: Path) -> None:
    """M11: `flo` is a frozen global, and `flo:runtime` gives the same members, by name too."""
    names = ", ".join(RUNTIME_NAMES)
    source = (
        f"import {{ {names} }} from 'flo:runtime'; import * as all from 'flo:runtime';\n"
        "import places from './places.json' with { type: 'json' };\n"
        "import { type Gone } from './gone.mts'; import { near } from './near.mts';\n"
        f"export default (input: Gone) => [near(places), [{names}].every(\n"
        "  (each, at) => each === Object.entries(all).find(([, it]) => it === each)?.[1])];\n"
    )
    others = {"places.json": '["Oslo"]', "near.mts": "export const near = (a: string[]) => a[0]"}
    result = script(scanner, {"main.mts": source, **others})
    sandbox = QuickJs(SystemClock(), machine_code)
    assert await sandbox.run(result, {}, FakeBridge(), Bounds(seconds=5)) == ["Oslo", True]
    await sandbox.close()


def test_one_mistake_does_not_hide_the_others(scanner: Scanner) -> None:
    """All problems of a bundle are found in one pass."""
    text = "import 'lodash';\nimport './gone.mts';\nenum A {}\nimport('x');\n"
    codes = [
        each.split()[2].rstrip(":") for each in reported(loaded(scanner, {"main.mts": text}, "run"))
    ]
    expected = ["import-bare", "import-dynamic", "import-missing", "ts-not-erasable"]
    assert sorted(codes) == sorted(["entrypoint-missing", *expected])


def test_a_syntax_error_does_not_hide_imports(scanner: Scanner) -> None:
    inline = InlineScript(text="import 'x';\nconst = 1", file="tools/a.tool.yaml", line=7, column=5)
    reference = ScriptReference(files=InMemory({}), folder="tools", entry=inline, entrypoint="run")
    codes = [each.split()[:3] for each in reported(load(reference, scanner))]
    assert codes == [
        ["tools/a.tool.yaml:7:5:", "error", "entrypoint-missing:"],
        ["tools/a.tool.yaml:7:12:", "error", "import-bare:"],
        ["tools/a.tool.yaml:8:11:", "error", "script-syntax:"],
    ]


@pytest.mark.parametrize(
    ("text", "is_missing"),
    [
        ("const = 1;\nexport const go = 1;", True),
        ("// run\nconst = 'run';", True),
        ("export const run = {;", False),
        ("const = 1; export * from './a.mts'", False),
        ("const = 1; export const a = 1, run = 2", False),
    ],
)
def test_a_missing_entrypoint_is_not_hidden(scanner: Scanner, text: str, is_missing: bool) -> None:
    files = {"main.mts": text, "a.mts": ""}
    codes = [each.code for each in loaded(scanner, files, "run").problems]
    assert ("entrypoint-missing" in codes, "script-syntax" in codes) == (is_missing, True)


def test_next_to_a_syntax_error_imports_keep_their_positions(scanner: Scanner) -> None:
    text = "const = 1;\n'a';\n  import 'lodash';\nexport const run = 1;"
    assert [
        each.partition(": ")[0] for each in reported(loaded(scanner, {"main.mts": text}, "run"))
    ] == [
        "tools/main.mts:1:7",
        "tools/main.mts:3:10",
    ]


@pytest.mark.parametrize(
    ("text", "line", "column", "end"),
    [
        ('import "lodash";', 1, 8, (1, 16)),
        ("1;\nimport 'a😀b';", 2, 8, (2, 13)),
        ("import { near } from './a.mjs';", 1, 10, (1, 14)),
        ("import(`a`)", 1, 1, (1, 7)),
        ("@a class B {}", 1, 1, (1, 3)),
        ("const a = ;  \nlet b;", 1, 11, (1, 12)),
        ("const a = ) + 1;\r\n", 1, 11, (1, 17)),
        ("let 'a;\n'", 1, 5, (1, 8)),
        ("", 1, 1, (0, 0)),
        ("a\n", 2, 1, (0, 0)),
    ],
)
def test_a_range_ends_after_its_subject(
    text: str, line: int, column: int, end: tuple[int, int]
) -> None:
    """Wider §14: "A range never is empty and never leaves the line of a scalar"."""
    problem = Diagnostic(code="import-bare", message="no", line=line, column=column)
    result = spanned(problem, text, Lines(text))
    assert (result.end_line, result.end_column) == end


def test_a_problem_of_a_whole_file_has_no_range() -> None:
    problem = Diagnostic(code="entrypoint-missing", message="no")
    assert spanned(problem, "export {}", Lines("export {}")) == problem


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("new Intl.NumberFormat('de')", ["1:5 Intl"]),
        ("1;\n Temporal.Now.instant(); Temporal.Now", ["2:2 Temporal"]),
        ("Intl?.Collator", ["1:1 Intl"]),
        ("`${Intl.x}`", ["1:4 Intl"]),
        ("'Intl.NumberFormat' // Intl.x", []),
        ("a.Intl.b; MyIntl.c; typeof Intl", []),
        ("const Intl = {}; Intl.x", []),
        ("import { Intl } from './own.mjs'; Intl.x", []),
        ("import * as Temporal from './own.mjs'; Temporal.x", []),
        ("", []),
    ],
)
def test_a_global_that_scripts_lack_is_a_warning(source: str, result: list[str]) -> None:
    """Design of the sandbox, §6.1 no. 13: "Warn on `Intl`/`Temporal` at load"."""
    warnings = list(absent_globals(source))
    names = [each.message.split('"')[1] for each in warnings]
    assert [f"{a.line}:{a.column} {n}" for a, n in zip(warnings, names, strict=True)] == result
    assert {each.severity for each in warnings} <= {Severity.WARNING}
