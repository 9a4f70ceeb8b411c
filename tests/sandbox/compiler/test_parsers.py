"""Types are stripped in place, imports and exports are found, and no source hangs the host."""

import re
import threading
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.compiler.parsers import Export, Lexer, TypeScript, unquoted
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
def test_imports_are_found_with_their_names(
    lexer: Lexer, source: str, specifier: str, names: list[str]
) -> None:
    (result,) = lexer.scan(source).statements
    assert (result.kind, result.specifier) == ("import", specifier)
    assert [name for name, _ in result.names] == names


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
def test_text_that_looks_like_an_import_is_not_reported(
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
def test_exports_are_found(lexer: Lexer, source: str, names: list[str]) -> None:
    assert [each.name for each in lexer.scan(source).exports] == names


def test_a_re_export_names_its_statement(lexer: Lexer) -> None:
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


def test_imports_report_attributes_and_phases(lexer: Lexer) -> None:
    source = "import a from 'b' with {type: 'json', \"c\": 'd'}; import defer * as e from 'f'"
    first, second = lexer.scan(source).statements
    assert first.attributes == (("type", "json", 24), ("c", "d", 38))
    assert (second.phase, first.phase) == ("defer", None)


def test_offsets_count_characters(lexer: Lexer) -> None:
    source = "'😀é'; import {a, b} from './😀.mjs'; import.meta"
    first, second = lexer.scan(source).statements
    assert source[first.at :].startswith("import {a")
    assert source[first.specifier_at :].startswith("'./😀")
    assert source[first.names[1][1] :].startswith("b}")
    assert source[first.end :].startswith("; import.meta")
    assert source[second.at :] == "import.meta"


@pytest.mark.parametrize("source", ["import {", "`${", "(", "'a"])
def test_an_unfinished_source_is_a_syntax_error(lexer: Lexer, source: str) -> None:
    assert lexer.scan(source).problem == "not valid JavaScript"


@pytest.mark.parametrize(
    "statement", ["import'a';", "export{a};", "import.meta;", "export*from'';", "import('😀');"]
)
def test_too_many_imports_are_refused(lexer: Lexer, statement: str) -> None:
    source = statement * ((4 << 20) // len(statement.encode()))
    assert lexer.scan(source).problem == "it has more than 1999 imports or exports"


ANYTHING = ["(", "{", "`${", "a=>", "export let a;", "<", "\\u0061"]


@pytest.mark.chaos
@pytest.mark.slow("regular expressions are compiled by the hundred thousand")
@pytest.mark.parametrize(("part", "megabytes"), [*((each, 4) for each in ANYTHING), ("/a/;", 1)])
def test_megabytes_of_any_token_are_scanned_in_time(
    lexer: Lexer, part: str, megabytes: int
) -> None:
    lexer.scan(part * ((megabytes << 20) // len(part)))
    assert lexer.scan("import 'a'").problem is None


def test_a_scan_stops_at_its_time_limit(machine_code: Path) -> None:
    hasty = Lexer(SystemClock(), machine_code, seconds=-1)
    assert hasty.scan("a;" * 2_000_000).problem == "reading it took longer than -1 s"
    hasty.close()


def test_threads_scan_one_at_a_time(lexer: Lexer) -> None:
    wrong: list[int] = []

    def scan(number: int) -> None:
        for _ in range(20):
            (result,) = lexer.scan(f"import {{a{number}}} from './{number}.mjs'").statements
            if result.names[0][0] != f"a{number}" or result.specifier != f"./{number}.mjs":
                wrong.append(number)

    threads = [threading.Thread(target=scan, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("'a'", "a"),
        ('"a\\n\\t\\0"', "a\n\t\0"),
        ("'\\\n\\q\\u{1F600}\\ud83d\\ude00'", "q😀😀"),
        ("'\\u{110000}'", "\U0010ffff"),
        ("ab", "ab"),
    ],
)
def test_escapes_in_strings_are_decoded(text: str, message: str) -> None:
    assert unquoted(text) == message


def test_a_scan_has_its_time_limit_for_each_source(machine_code: Path) -> None:
    clock = FakeClock()
    reads = Lexer(clock, machine_code)
    for _ in range(20):
        assert reads.scan("import 'a'").problem is None
        clock.advance(1000)
    reads.close()


TYPED = """\
import type { Place } from "./place.mts";
interface Wanted { city: string }
export async function run<T>(input: Wanted, also?: T): Promise<string> {
  const found = input.city as string;
  return found!;
}
"""


def test_types_are_blanked_in_place(typescript: TypeScript) -> None:
    """M2: positions in errors are those of the source file."""
    stripped = typescript.strip_types(TYPED)
    assert stripped.problem is None
    wrote, left = TYPED.splitlines(), stripped.source.splitlines()
    assert [len(line) for line in wrote] == [len(line) for line in left]
    assert re.sub(" +", " ", left[2]) == "export async function run (input , also ) {"
    assert left[4] == "  return found ;"


@pytest.mark.parametrize(
    ("source", "construct", "column"),
    [
        ("enum A { X }", "enum", 1),
        ("1; const enum A { X }", "enum", 4),
        ("namespace N { export const a = 1 }", "namespace", 1),
        ("module N { export const a = 1 }", "namespace", 1),
        ("class A { constructor(private x: string) {} }", "a parameter property", 31),
        ("@first class A {}", "a decorator", 1),
        ("class A { @first x = 1 }", "a decorator", 11),
        ("@(first) class A {}", "a decorator", 1),
        ("import x = require('y')", "import ... =", 1),
        ("export = 1", "export =", 1),
        ("const x = <number>y", "a <T>x cast", 11),
    ],
)
def test_a_construct_that_cannot_be_erased_is_named(
    typescript: TypeScript, source: str, construct: str, column: int
) -> None:
    """M3: only erasable syntax."""
    stripped = typescript.strip_types(source)
    assert stripped.is_unsupported
    assert (stripped.problem, stripped.line, stripped.column) == (construct, 1, column)


@pytest.mark.parametrize(
    "source",
    [
        "declare const enum A { X }",
        "namespace N { export type A = 1 }",
        "/** @param x */ const a = '@b', c = /@d/, e = `@f ${'@g'}`",
        "abstract class A<T> extends B<T> implements C { declare x: T; private y = 1 }",
    ],
)
def test_text_that_looks_like_such_a_construct_is_erased(
    typescript: TypeScript, source: str
) -> None:
    assert typescript.strip_types(source).problem is None


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("const a: = 1", 1, 10),
        ("const a = 1\n  let b: = 2", 2, 10),
        ("const a = 1\r\n  let b: = 2", 2, 10),
        ("const a = '😀é'; const b: = 2", 1, 26),
        ("const a = '\t日本'; const b: = 2", 1, 27),
        ("const a = `\n${1}\n`; const b: = 2", 3, 13),
        ("let a = '\0'; \0", 1, 14),
    ],
)
def test_a_syntax_error_is_at_the_position_that_editors_show(
    typescript: TypeScript, source: str, line: int, column: int
) -> None:
    stripped = typescript.strip_types(source)
    assert stripped.problem is not None
    assert not stripped.is_unsupported
    assert (stripped.line, stripped.column) == (line, column)


@pytest.mark.parametrize(
    "source",
    [
        "(" * 100_000,
        "[" * 1_000_000,
        "x=>" * 500_000,
        "`${" * 500_000,
        "type A = " + "[" * 500_000,
        "f(a<b," * 300_000,
        "a+" * 500_000 + "a",
    ],
    ids=["braces", "lists", "arrows", "templates", "types", "ambiguous", "sum"],
)
def test_endless_nesting_is_refused_and_the_parser_stays_usable(
    typescript: TypeScript, source: str
) -> None:
    message = typescript.strip_types(source).problem
    assert message == "it is nested too deeply, or needs too much memory to be read"
    assert typescript.strip_types("let a: 1").source == "let a   "


@pytest.mark.slow("four megabytes are read")
def test_the_largest_source_is_stripped(typescript: TypeScript) -> None:
    line = "export const value_0: number = 1; // a remark\n"
    source = line * ((4 << 20) // len(line))
    assert typescript.strip_types(source).source.count(":") == 0


def test_stripping_stops_at_its_time_limit(machine_code: Path) -> None:
    hasty = TypeScript(SystemClock(), machine_code, seconds=0.02)
    source = "export const value: number = [1, 2, 3].length;\n" * 40_000
    assert hasty.strip_types(source).problem == "reading it took longer than 0.02 s"
    assert hasty.strip_types("let a: 1").source == "let a   "
    hasty.close()


def test_threads_strip_one_at_a_time(typescript: TypeScript) -> None:
    wrong: list[str] = []

    def strip(number: int) -> None:
        message = {typescript.strip_types(f"let a{number}: x").source for _ in range(20)}
        wrong.extend(message - {f"let a{number}   "})

    threads = [threading.Thread(target=strip, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_closed_parser_loads_its_blob_again(machine_code: Path) -> None:
    strips = TypeScript(SystemClock(), machine_code)
    assert strips.strip_types("let a: 1").source == "let a   "
    strips.close()
    assert strips.strip_types("let a: 1").source == "let a   "
    strips.close()


def test_stripping_has_its_time_limit_for_each_source(machine_code: Path) -> None:
    clock = FakeClock()
    reads = TypeScript(clock, machine_code)
    for _ in range(20):
        assert reads.strip_types("import 'a'").problem is None
        clock.advance(1000)
    reads.close()
