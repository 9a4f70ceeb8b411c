"""What a specifier may say, row by row of the specification's table."""

import pytest

from penstock.sandbox.reading.imports import (
    RefusedImport,
    missing_file,
    missing_name,
    refused_attributes,
    relative,
    target,
)
from penstock.sandbox.reading.lexer import Statement
from penstock.sandbox.script import RUNTIME


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
def test_allowed(importer: str, specifier: str, name: str) -> None:
    assert target(importer, importing(specifier)) == name


BARE = 'package import "{s}" is not allowed'
HINT = BARE + '; use a relative path such as "./{s}{end}"'
URL = 'import from a URL is not allowed: "{s}"'
ABSOLUTE = 'absolute import "{s}" is not allowed'
OUT = 'import "{s}" leads out of tools'
MIDDLE = '".." may stand only at the beginning of import "{s}"'
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
def test_refused(specifier: str, code: str, message: str, end: str) -> None:
    refused = target("main.mts", importing(specifier), "tools")
    shown = specifier.replace("\0", "\ufffd").replace("\n", "\ufffd")
    assert isinstance(refused, RefusedImport)
    assert (refused.code, refused.message) == (code, message.format(s=shown, end=end))


def test_a_wrong_word_after_flo_is_helped() -> None:
    refused = target("main.mts", importing("flo:runtimes"))
    assert isinstance(refused, RefusedImport)
    assert refused.suggestion == 'did you mean "flo:runtime"?'


TYPE = 'import attribute "type" is not supported'


@pytest.mark.parametrize(
    ("statement", "said"),
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
def test_attributes(statement: Statement, said: list[tuple[int, str]]) -> None:
    assert [(at, refused.message) for at, refused in refused_attributes(statement)] == said


@pytest.mark.parametrize(
    ("importer", "name", "specifier"),
    [
        ("main.mts", "x.mts", "./x.mts"),
        ("main.mts", "lib/x.mts", "./lib/x.mts"),
        ("lib/a.mts", "x.mts", "../x.mts"),
        ("lib/a.mts", "lib/x.mts", "./x.mts"),
    ],
)
def test_a_hint_is_a_specifier(importer: str, name: str, specifier: str) -> None:
    assert relative(importer, name) == specifier
    assert target(importer, importing(specifier)) == name


def test_the_nearest_file_is_offered_and_never_the_missing_one() -> None:
    names = ["main.mts", "helpers.mts", "lib/helper.mts"]
    refused = missing_file("main.mts", "./helper.mts", names)
    assert refused.message == '"./helper.mts" does not exist'
    assert refused.suggestion == 'did you mean "./helpers.mts"?'
    assert missing_file("main.mts", "./helpers.mts", ["helpers.mts"]).suggestion is None


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("rum", 'did you mean "run"?'), ("Place", "use import type"), ("entirely", None)],
)
def test_a_name_that_is_not_exported(name: str, suggestion: str | None) -> None:
    refused = missing_name("./a.mts", name, ["run", "stop"], ["Place"])
    assert refused.message == f'"./a.mts" does not export "{name}"'
    assert refused.suggestion == suggestion
