"""Imports and exports are found where they are, and nowhere else."""

import threading
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.reading.lexer import Export, Lexer, unquoted
from penstock.testing.clock import FakeClock


@pytest.mark.parametrize(
    ("source", "specifier", "names"),
    [
        ("import './a.mjs'", "./a.mjs", []),
        ("import a from './a.mjs'", "./a.mjs", ["default"]),
        ("import * as a from './a.mjs'", "./a.mjs", []),
        ("import a, * as b from './a.mjs'", "./a.mjs", ["default"]),
        (
            "import a, {b, c as d, default as e} from './a.mjs'",
            "./a.mjs",
            ["default", "b", "c", "default"],
        ),
        ("import {'a b' as c} from './a.mjs'", "./a.mjs", ["a b"]),
        ("import {} from './a.mjs'", "./a.mjs", []),
        ("import from from './a.mjs'", "./a.mjs", ["default"]),
        ("import {from, as as b, as as as} from './a.mjs'", "./a.mjs", ["from", "as", "as"]),
        ("import /* {x} */ {y // z\n} from './a.mjs'", "./a.mjs", ["y"]),
        ("export {a, b as c, default} from './a.mjs'", "./a.mjs", ["a", "b", "default"]),
        ("export * from './a.mjs'", "./a.mjs", []),
        ("export * as a from './a.mjs'", "./a.mjs", []),
        ("import '\\u002e\\x2e/\\u{61}.mjs'", "../a.mjs", []),
        ("import \"'a'\"", "'a'", []),
        ("import {\\u0061b} from './é😀.mjs'", "./é😀.mjs", ["ab"]),
    ],
)
def test_an_import_is_read(lexer: Lexer, source: str, specifier: str, names: list[str]) -> None:
    (found,) = lexer.scan(source).statements
    assert (found.kind, found.specifier) == ("import", specifier)
    assert [name for name, _ in found.names] == names


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("import('./a.mjs')", ["dynamic"]),
        ("import(x)", ["dynamic"]),
        ("import/**/ (x)", ["dynamic"]),
        ("`${import('a')}`", ["dynamic"]),
        ("import.meta", ["meta"]),
        ("import . meta.url", ["meta"]),
        ("// import('a')\n/* import.meta */", []),
        ("const a = `import('a')`, b = 'import(c)', d = /import('e')/", []),
        ("a.import('b'); const o = {import() {}, 'import.meta': 1}", []),
        ("x = a / b / import('c')", ["dynamic"]),
        ("if (a) /import('b')/.test(c)", []),
    ],
)
def test_what_only_looks_like_an_import_is_none(
    lexer: Lexer, source: str, kinds: list[str]
) -> None:
    assert [each.kind for each in lexer.scan(source).statements] == kinds


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("export const a = 1, {b, c: d, ...e} = f, [g, , h] = i", list("abdegh")),
        ("export let x, y = 1", ["x", "y"]),
        ("export async function f() {}\nexport class A {}\nexport function* g() {}", [*"fAg"]),
        ("export default () => 1", ["default"]),
        ("const a = 1; export {a as 'b c', a as default}", ["b c", "default"]),
        ("'export const a = 1'; // export const b = 1", []),
    ],
)
def test_exports_are_read(lexer: Lexer, source: str, names: list[str]) -> None:
    assert [each.name for each in lexer.scan(source).exports] == names


def test_what_is_exported_from_elsewhere_says_from_where(lexer: Lexer) -> None:
    source = (
        "import 'z'; export {a as b, default as c} from 'x'; "
        "export * from 'y'; export * as n from 'y'"
    )
    assert lexer.scan(source).exports == (
        Export(name="b", statement=1, imported="a"),
        Export(name="c", statement=1, imported="default"),
        Export(name=None, statement=2),
        Export(name="n", statement=3),
    )


def test_attributes_and_phases_are_told(lexer: Lexer) -> None:
    source = "import a from 'b' with {type: 'json', \"c\": 'd'}; import defer * as e from 'f'"
    first, second = lexer.scan(source).statements
    assert first.attributes == (("type", "json", 24), ("c", "d", 38))
    assert (second.phase, first.phase) == ("defer", None)


def test_places_count_characters(lexer: Lexer) -> None:
    source = "'😀é'; import {a, b} from './😀.mjs'; import.meta"
    first, second = lexer.scan(source).statements
    assert source[first.at :].startswith("import {a")
    assert source[first.specifier_at :].startswith("'./😀")
    assert source[first.names[1][1] :].startswith("b}")
    assert source[first.end :].startswith("; import.meta")
    assert source[second.at :] == "import.meta"


@pytest.mark.parametrize("source", ["import {", "`${", "(", "'a"])
def test_what_ends_too_early_is_no_javascript(lexer: Lexer, source: str) -> None:
    assert lexer.scan(source).problem == "not valid JavaScript"


@pytest.mark.parametrize(
    "statement", ["import'a';", "export{a};", "import.meta;", "export*from'';", "import('😀');"]
)
def test_four_megabytes_of_imports_are_too_many(lexer: Lexer, statement: str) -> None:
    source = statement * ((4 << 20) // len(statement.encode()))
    assert lexer.scan(source).problem == "it has more than 1999 imports or exports"


ANYTHING = ["(", "{", "`${", "a=>", "export let a;", "<", "\\u0061"]


@pytest.mark.slow("regular expressions are compiled by the hundred thousand")
@pytest.mark.parametrize(("part", "megabytes"), [*((each, 4) for each in ANYTHING), ("/a/;", 1)])
def test_megabytes_of_anything_end(lexer: Lexer, part: str, megabytes: int) -> None:
    lexer.scan(part * ((megabytes << 20) // len(part)))
    assert lexer.scan("import 'a'").problem is None


def test_what_takes_too_long_is_given_up(machine_code: Path) -> None:
    hasty = Lexer(SystemClock(), machine_code, seconds=-1)
    assert hasty.scan("a;" * 2_000_000).problem == "to read it takes longer than -1 s"
    hasty.close()


def test_threads_take_turns(lexer: Lexer) -> None:
    wrong: list[int] = []

    def scan(number: int) -> None:
        for _ in range(20):
            (found,) = lexer.scan(f"import {{a{number}}} from './{number}.mjs'").statements
            if found.names[0][0] != f"a{number}" or found.specifier != f"./{number}.mjs":
                wrong.append(number)

    threads = [threading.Thread(target=scan, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("'a'", "a"),
        ('"a\\n\\t\\0"', "a\n\t\0"),
        ("'\\\n\\q\\u{1F600}\\ud83d\\ude00'", "q😀😀"),
        ("'\\u{110000}'", "\U0010ffff"),
        ("ab", "ab"),
    ],
)
def test_escapes_are_undone(text: str, said: str) -> None:
    assert unquoted(text) == said


def test_each_source_has_the_seconds_for_itself(machine_code: Path) -> None:
    clock = FakeClock()
    reads = Lexer(clock, machine_code)
    for _ in range(20):
        assert reads.scan("import 'a'").problem is None
        clock.advance(1000)
    reads.close()
