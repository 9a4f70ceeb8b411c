"""The module graph, and what a specifier may be, row by row of the specification's table."""

import pytest

from penstock.sandbox.compiler.module_graph import (
    MAX_BYTES,
    MAX_MODULES,
    RefusedImport,
    missing_file,
    missing_name,
    read_graph,
    refused_attributes,
    relative,
    target,
)
from penstock.sandbox.compiler.parsers import Statement
from penstock.sandbox.compiler.scanner import Scanner
from penstock.sandbox.compiler.script_files import ReadFailure
from penstock.sandbox.script import RUNTIME
from tests.sandbox.files import InMemory


def test_every_file_is_read_once_breadth_first(scanner: Scanner) -> None:
    files = InMemory(
        {
            "main.mts": "import './lib/a.mts'; import './b.mts'; import './main.mts'",
            "lib/a.mts": "import '../b.mts'; import './c.mts'",
            "b.mts": "import './lib/c.mts'",
            "lib/c.mts": "import '../main.mts'",
        }
    )
    graph = read_graph("main.mts", files.read, scanner)
    assert files.readings == ["main.mts", "lib/a.mts", "b.mts", "lib/c.mts"]
    assert graph.links["lib/a.mts"] == {"../b.mts": "b.mts", "./c.mts": "lib/c.mts"}
    assert not graph.is_too_large


def test_a_file_that_changes_while_it_is_read_has_one_content(scanner: Scanner) -> None:
    files = InMemory(
        {
            "main.mts": "import './a.mts'; import './b.mts'",
            "a.mts": "export * from './b.mts'",
            "b.mts": ["export const one = 1", "export const two = 2"],
        }
    )
    graph = read_graph("main.mts", files.read, scanner)
    assert graph.exported("b.mts") == graph.exported("a.mts") == frozenset({"one"})


@pytest.mark.parametrize("count", [MAX_MODULES, MAX_MODULES + 1, 300])
def test_a_script_has_at_most_256_modules(scanner: Scanner, count: int) -> None:
    """M8."""
    files = {f"{n}.mts": f"import './{n + 1}.mts'" for n in range(count - 1)}
    graph = read_graph("0.mts", InMemory(files | {f"{count - 1}.mts": ""}).read, scanner)
    assert graph.is_too_large is (count > MAX_MODULES)
    assert len(graph.scans) <= MAX_MODULES


@pytest.mark.parametrize("extra", [0, 1])
def test_a_script_has_at_most_four_megabytes(scanner: Scanner, extra: int) -> None:
    first = "import './b.mts'\n"
    files = InMemory({"a.mts": first, "b.mts": "/" * (MAX_BYTES - len(first) + extra)})
    graph = read_graph("a.mts", files.read, scanner)
    assert graph.is_too_large is bool(extra)
    assert graph.bytes == MAX_BYTES + extra


@pytest.mark.parametrize(
    ("name", "exported"),
    [
        ("own.mts", {"a", "default"}),
        ("star.mts", {"a", "b"}),
        ("circle.mts", {"a", "b", "c"}),
        ("round.mts", {"a", "b", "c"}),
        ("runtime.mts", None),
        ("data.json", {"default"}),
        ("broken.mts", None),
        ("over_broken.mts", None),
        ("over_missing.mts", None),
        ("over_refused.mts", None),
    ],
)
def test_exported_follows_export_star(
    scanner: Scanner, name: str, exported: set[str] | None
) -> None:
    files = InMemory(
        {
            "own.mts": "export const a = 1; export default 2",
            "star.mts": "export * from './own.mts'; export const b = 1",
            "circle.mts": "export * from './round.mts'; export const c = 1",
            "round.mts": "export * from './circle.mts'; export * from './star.mts'",
            "runtime.mts": "export * from 'flo:runtime'",
            "data.json": "{}",
            "broken.mts": "export const",
            "over_broken.mts": "export * from './broken.mts'",
            "over_missing.mts": "export * from './missing.mts'",
            "over_refused.mts": "export * from 'package'",
        }
    )
    graph = read_graph(name, files.read, scanner)
    result = graph.exported(name)
    if name == "runtime.mts":
        assert result is not None
        assert "callTool" in result
    else:
        assert result == exported


@pytest.mark.slow("thousands of stars are followed")
def test_exported_ends_in_a_graph_full_of_export_star(scanner: Scanner) -> None:
    count = 60
    stars = "".join(f"export * from './{n}.mts';" for n in range(count))
    files = InMemory({f"{n}.mts": f"{stars}export const a{n} = 1" for n in range(count)})
    graph = read_graph("0.mts", files.read, scanner)
    assert all(len(graph.exported(name) or ()) == count for name in graph.scans)


def test_a_missing_file_differs_from_an_escaping_one(scanner: Scanner) -> None:
    graph = read_graph("a.mts", InMemory({"a.mts": "import './b.mts'"}).read, scanner)
    assert graph.absent == {"b.mts": ReadFailure.MISSING}


def importing(specifier: str, *attributes: tuple[str, str, int]) -> Statement:
    return Statement(kind="import", at=0, end=0, specifier=specifier, attributes=attributes)


@pytest.mark.parametrize(
    ("importer", "specifier", "name"),
    [
        ("main.mts", "./x.mts", "x.mts"),
        ("main.mts", "./x.mjs", "x.mjs"),
        ("main.mts", "./x.ts", "x.ts"),
        ("main.mts", "./x.js", "x.js"),
        ("main.mts", "./x.json", "x.json"),
        ("main.mts", "./lib/x.mts", "lib/x.mts"),
        ("main.mts", "././lib/./x.mts", "lib/x.mts"),
        ("scripts/lib/a.mts", "../x.mts", "scripts/x.mts"),
        ("scripts/lib/a.mts", "../../x.mts", "x.mts"),
        ("scripts/lib/a.mts", "./../x.mts", "scripts/x.mts"),
        ("main.mts", "./..x.mts", "..x.mts"),
        ("main.mts", "./é 😀.mts", "é 😀.mts"),
        ("main.mts", RUNTIME, RUNTIME),
    ],
)
def test_a_relative_specifier_resolves_within_the_folder(
    importer: str, specifier: str, name: str
) -> None:
    assert target(importer, importing(specifier)) == name


BARE = 'package import "{s}" is not allowed'
HINT = BARE + '; use a relative path such as "./{s}{end}"'
URL = 'import from a URL is not allowed: "{s}"'
ABSOLUTE = 'absolute import "{s}" is not allowed'
OUT = 'import "{s}" leads out of tools'
MIDDLE = '".." is allowed only at the beginning of import "{s}"'
CHARACTER = 'import "{s}" has a character that is not allowed: {end}'
EXTENSION = 'import "{s}" must end in .mts, .mjs, .ts, .js or .json'


@pytest.mark.parametrize(
    ("specifier", "code", "message", "end"),
    [
        ("lodash", "import-bare", HINT, ".mts"),
        ("@scope/x", "import-bare", HINT, ".mts"),
        ("lib/x.mts", "import-bare", HINT, ""),
        ("node:fs", "import-bare", BARE, ""),
        ("npm:x", "import-bare", BARE, ""),
        ("jsr:x", "import-bare", BARE, ""),
        ("https://x.example/y.mts", "import-url", URL, ""),
        ("http://x.example/y.mts", "import-url", URL, ""),
        ("data:text/javascript,1", "import-url", URL, ""),
        ("file:///x.mts", "import-url", URL, ""),
        ("blob:x", "import-url", URL, ""),
        ("FLO:runtime", "import-url", URL, ""),
        ("C:\\x.mts", "import-url", URL, ""),
        ("/x.mts", "import-absolute", ABSOLUTE, ""),
        ("//x.example/y.mts", "import-absolute", ABSOLUTE, ""),
        ("../x.mts", "import-parent", OUT, ""),
        ("./../x.mts", "import-parent", OUT, ""),
        ("..", "import-parent", OUT, ""),
        ("./a/../b.mts", "import-parent", MIDDLE, ""),
        ("./%2e%2e/x.mts", "import-bad-character", CHARACTER, '"%"'),
        ("./a\\b.mts", "import-bad-character", CHARACTER, '"\\"'),
        ("./a.mts?b", "import-bad-character", CHARACTER, '"?"'),
        ("./a.mts#b", "import-bad-character", CHARACTER, '"#"'),
        ("./a\0.mts", "import-bad-character", CHARACTER, "U+0000"),
        ("./a\n.mts", "import-bad-character", CHARACTER, "U+000A"),
        ("./a//b.mts", "import-bad-character", CHARACTER, "an empty segment"),
        ("./a/", "import-bad-character", CHARACTER, "an empty segment"),
        ("", "import-bad-character", CHARACTER, "an empty segment"),
        ("./x", "import-extension", EXTENSION, ""),
        ("./x.tsx", "import-extension", EXTENSION, ""),
        ("./x.MTS", "import-extension", EXTENSION, ""),
        (".", "import-extension", EXTENSION, ""),
    ],
)
def test_a_forbidden_specifier_is_refused_with_its_code(
    specifier: str, code: str, message: str, end: str
) -> None:
    refused = target("main.mts", importing(specifier), "tools")
    shown = specifier.replace("\0", "\ufffd").replace("\n", "\ufffd")
    assert isinstance(refused, RefusedImport)
    assert (refused.code, refused.message) == (code, message.format(s=shown, end=end))


def test_a_wrong_name_after_flo_gets_a_suggestion() -> None:
    refused = target("main.mts", importing("flo:runtimes"))
    assert isinstance(refused, RefusedImport)
    assert refused.suggestion == 'did you mean "flo:runtime"?'


TYPE = 'import attribute "type" is not supported'


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (importing("./x.json", ("type", "json", 9)), []),
        (importing("./x.mts"), []),
        (importing("./x.json"), [(0, 'import of "./x.json" needs with { type: "json" }')]),
        (importing("./x.mts", ("type", "json", 9)), [(9, TYPE)]),
        (importing("./x.json", ("type", "text", 9)), [(9, TYPE)]),
        (importing(RUNTIME, ("a", "b", 9)), [(9, 'import attribute "a" is not supported')]),
        (
            importing("./x.json", ("a", "b", 9)),
            [
                (9, 'import attribute "a" is not supported'),
                (0, 'import of "./x.json" needs with { type: "json" }'),
            ],
        ),
    ],
)
def test_import_attributes_are_checked(
    statement: Statement, message: list[tuple[int, str]]
) -> None:
    assert [(at, refused.message) for at, refused in refused_attributes(statement)] == message


@pytest.mark.parametrize(
    ("importer", "name", "specifier"),
    [
        ("main.mts", "x.mts", "./x.mts"),
        ("main.mts", "lib/x.mts", "./lib/x.mts"),
        ("lib/a.mts", "x.mts", "../x.mts"),
        ("lib/a.mts", "lib/x.mts", "./x.mts"),
    ],
)
def test_a_suggestion_is_a_relative_specifier(importer: str, name: str, specifier: str) -> None:
    assert relative(importer, name) == specifier
    assert target(importer, importing(specifier)) == name


def test_the_nearest_existing_file_is_suggested() -> None:
    names = ["main.mts", "helpers.mts", "lib/helper.mts"]
    refused = missing_file("main.mts", "./helper.mts", names)
    assert refused.message == '"./helper.mts" does not exist'
    assert refused.suggestion == 'did you mean "./helpers.mts"?'
    assert missing_file("main.mts", "./helpers.mts", ["helpers.mts"]).suggestion is None


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("rum", 'did you mean "run"?'), ("Place", "use import type"), ("entirely", None)],
)
def test_a_name_that_is_not_exported_gets_a_suggestion(name: str, suggestion: str | None) -> None:
    refused = missing_name("./a.mts", name, ["run", "stop"], ["Place"])
    assert refused.message == f'"./a.mts" does not export "{name}"'
    assert refused.suggestion == suggestion
