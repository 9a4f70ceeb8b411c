"""Scanning one file: its imports and exports, and the constructs that are refused."""

import json
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.compiler.parsers import Lexer, TypeScript
from penstock.sandbox.compiler.scanner import MAX_JSON_BYTES, Lines, ScannedFile, Scanner

ERASABLE = "is not supported: only TypeScript that can be erased"
NO_TYPES = "script-syntax: this is TypeScript; in JavaScript there are no types"


def problems_of(scanned: ScannedFile) -> list[str]:
    return [f"{each.line}:{each.column} {each.code}: {each.message}" for each in scanned.problems]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.mts", "const a: = 1", "1:10 script-syntax: Unexpected token"),
        ("a.mts", "1;\nenum A {}", f"2:1 ts-not-erasable: enum {ERASABLE}"),
        ("a.ts", "@a class B {}", f"1:1 ts-not-erasable: a decorator {ERASABLE}"),
        ("a.mjs", "const a = ;", "1:11 script-syntax: Expression expected"),
        ("a.mjs", "enum A {}", "1:1 script-syntax: enum is not JavaScript"),
        ("a.mjs", "\n let a: b", f"2:7 {NO_TYPES}"),
        ("a.js", "import type {A} from './b.js'", f"1:1 {NO_TYPES}"),
        ("a.mjs", "1;\r\nawait import('b')", "2:7 import-dynamic: dynamic import() is not"),
        ("a.mts", "import(`${1}`)", "1:1 import-dynamic: dynamic import() is not allowed"),
        ("a.mts", "const a: '😀' = import.meta", "1:16 import-meta: import.meta is not allowed"),
        (
            "a.mts",
            "import defer * as a from './b.mts'",
            "1:1 script-syntax: import defer is not supported",
        ),
        ("a.mts", b"\xff", "1:1 file-encoding: not UTF-8 at byte 0"),
        ("a.mts", b"1; \xed\xa0\x80", "1:1 file-encoding: not UTF-8 at byte 3"),
        ("a.mjs", "im\\u0070ort('a')", "1:1 script-syntax: "),
        ("a.json", "{1}", "1:2 script-syntax: not valid JSON: Expecting property name"),
        ("a.json", "[1,\n NaN]", "1:1 script-syntax: not valid JSON: NaN is not a number of JSON"),
        ("a.json", "", "1:1 script-syntax: not valid JSON: Expecting value"),
        ("a.json", "[" * 100_000, "1:1 script-syntax: not valid JSON: nested too deeply"),
        (
            "a.json",
            " " * (MAX_JSON_BYTES + 1),
            "1:1 graph-too-large: the JSON module has 1048577 bytes",
        ),
        ("a.mts", "((" * 50_000, "1:1 script-syntax: it is nested too deeply"),
    ],
)
def test_a_forbidden_construct_is_reported_with_its_position(
    scanner: Scanner, name: str, content: str | bytes, problem: str
) -> None:
    text = content if isinstance(content, bytes) else content.encode()
    (result,) = problems_of(scanner.scan(name, text))
    assert result.startswith(problem)


EVERYTHING = """import "lodash";
enum A { B }
export namespace C { export const d = 1 }
class E { constructor(private f: number) {} }
const g = <number>h;
import("x");
"""


@pytest.mark.parametrize(
    ("name", "content", "codes"),
    [
        ("a.mts", EVERYTHING, ["ts-not-erasable"] * 4 + ["import-dynamic"]),
        ("a.mjs", EVERYTHING, ["script-syntax"] * 5 + ["import-dynamic"]),
        ("a.mts", "enum A {}\n@b class C {}", ["ts-not-erasable"] * 2),
        ("a.mts", "enum A {}\nconst = 1", ["ts-not-erasable", "script-syntax"]),
        ("a.mjs", "let a: b\nimport('c')", ["script-syntax", "import-dynamic"]),
        ("a.mts", "enum A {}\nlet a; let a", ["ts-not-erasable", "script-syntax"]),
        ("a.mts", "@a class A {}\nconst = 1", ["ts-not-erasable", "script-syntax"]),
        ("a.mts", "enum A {}\n" * 100, ["ts-not-erasable"] * 100),
    ],
)  # fmt: skip
def test_one_mistake_does_not_hide_the_next(
    scanner: Scanner, name: str, content: str, codes: list[str]
) -> None:
    """All problems of a bundle are found in one pass, as the specification wants."""
    result = sorted(scanner.scan(name, content.encode()).problems, key=lambda each: each.line)
    assert [each.code for each in result] == codes


def test_a_file_with_mistakes_still_has_its_imports_and_exports(scanner: Scanner) -> None:
    scanned = scanner.scan("a.mts", EVERYTHING.encode())
    assert [each.specifier for each in scanned.statements] == ["lodash", ""]
    assert [each.name for each in scanned.exports] == ["C"]
    broken = scanner.scan("a.mts", b"import 'lodash';\nconst a = {;")
    assert [each.specifier for each in broken.statements] == ["lodash"]


@pytest.mark.parametrize(
    "source",
    [
        "f(a < b, c > (d))",
        "\ufeffexport default 1",
        "#!/usr/bin/env node\nexport default 1",
        "const a = 'x\0y'",
        "const a = /[/]import('x')/, b = `import.meta`; // import('y')",
        "export const enumerate = 1, type = 2, declare = 3",
        "import type from './type.mjs'",
    ],
)
def test_javascript_is_not_changed(scanner: Scanner, source: str) -> None:
    scanned = scanner.scan("a.mjs", source.encode())
    assert problems_of(scanned) == []
    assert scanned.source == source.removeprefix("\ufeff")


def test_an_import_of_types_only_loads_no_file(scanner: Scanner) -> None:
    """M4: `import type` and `import { type X }` are erased."""
    source = (
        "import type { A } from './a.mts';\n"
        "import { type B, type C } from './b.mts';\n"
        "export type { D } from './d.mts'; export { type E } from './e.mts';\n"
        "import {} from './f.mts'; import { type G, h } from './g.mts';\n"
    )
    scanned = scanner.scan("x.mts", source.encode())
    assert [each.specifier for each in scanned.statements] == ["./f.mts", "./g.mts"]
    assert len(scanned.source) == len(source)
    assert source[scanned.statements[1].specifier_at :].startswith("'./g.mts'")


def test_exported_types_are_listed_for_suggestions(scanner: Scanner) -> None:
    source = "export interface A {}\nexport type B = 1; export type {C, D as E}; export const f = 1"
    assert scanner.scan("x.mts", source.encode()).types == ("A", "B", "C", "E")


def test_emoji_in_a_type_keep_all_offsets(scanner: Scanner) -> None:
    source = "const a: '😀😀' = '😀'; type B = '😀'; export const c: 1 = 1"
    result = scanner.scan("x.mts", source.encode()).source
    assert len(result) == len(source)
    assert result[result.index("'😀'") :] == source[source.index("'😀';") :].replace(
        "type B = '😀';", " " * 13
    ).replace("c: 1", "c   ")


@pytest.mark.parametrize("content", ["export type {" * 80_000, "export " + " " * 1_000_000])
def test_the_search_for_types_is_not_quadratic(scanner: Scanner, content: str) -> None:
    scanned = scanner.scan("x.mts", content.encode())
    assert scanned.problems
    assert all("longer than" not in each.message for each in scanned.problems)


@pytest.mark.parametrize(
    ("text", "offset", "place"),
    [
        ("", 0, (1, 1)),
        ("ab\ncd", 4, (2, 2)),
        ("ab\r\ncd", 4, (2, 1)),
        ("ab\rcd", 3, (2, 1)),
        ("ab\n\n\ncd", 5, (4, 1)),
        ("😀é\n😀é", 4, (2, 2)),
    ],
)
def test_positions_are_lines_and_columns(text: str, offset: int, place: tuple[int, int]) -> None:
    assert Lines(text).place(offset) == place


SOURCE = b"""import { type A, b } from "./b.mts" with { type: "c" };
export const d: A = b; export * from "./b.mts"; import.meta
"""


def test_a_scanned_file_is_cached(tmp_path: Path, typescript: TypeScript, lexer: Lexer) -> None:
    first = Scanner(typescript, lexer, tmp_path / "cache").scan("a.mts", SOURCE)
    (kept,) = (tmp_path / "cache" / "modules").iterdir()
    again = Scanner(typescript, lexer, tmp_path / "cache").scan("other.ts", SOURCE)
    assert first == again
    assert len(first.problems) == 1
    as_javascript = Scanner(typescript, lexer, tmp_path / "cache").scan("a.mjs", SOURCE)
    assert as_javascript != first
    assert json.loads(kept.read_text())["source"] == first.source


@pytest.mark.parametrize("damage", ["", "{}", "[]", "null", "\x00", '{"source": 1}'])
def test_a_damaged_cache_entry_is_computed_again(
    tmp_path: Path, typescript: TypeScript, lexer: Lexer, damage: str
) -> None:
    first = Scanner(typescript, lexer, tmp_path / "cache").scan("a.mts", SOURCE)
    (kept,) = (tmp_path / "cache" / "modules").iterdir()
    kept.write_text(damage)
    assert Scanner(typescript, lexer, tmp_path / "cache").scan("a.mts", SOURCE) == first
    assert json.loads(kept.read_text())["source"] == first.source


def test_a_scan_that_timed_out_is_not_cached(
    tmp_path: Path, machine_code: Path, typescript: TypeScript, lexer: Lexer
) -> None:
    source = b"export const value: number = [1, 2, 3].length;\n" * 40_000
    hasty = TypeScript(SystemClock(), machine_code, seconds=0.02)
    late = Scanner(hasty, lexer, tmp_path).scan("a.mts", source)
    hasty.close()
    assert problems_of(late) == ["1:1 script-syntax: reading it took longer than 0.02 s"]
    again = Scanner(typescript, lexer, tmp_path).scan("a.mts", source)
    assert not again.is_late
