"""The adapters of es-module-lexer and QuickJS: bounded lexing, and the syntax errors of QuickJS."""

from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.compiler.javascript import EsLexer, Grammar
from penstock.sandbox.compiler.parsers import Lexer
from penstock.sandbox.compiler.scanner import Lines


def test_a_large_source_does_not_stay_in_memory(machine_code: Path) -> None:
    blob = EsLexer(SystemClock(), machine_code)
    assert blob.scan("a;" * 2_000_000, 10).problem is None
    assert blob.scan("import 'a'", 10).statements[0].specifier == "a"
    blob.close()


def test_a_source_that_needs_too_much_memory_is_refused(machine_code: Path) -> None:
    blob = EsLexer(SystemClock(), machine_code)
    assert blob.scan("a" * 40_000_000, 10).problem == "it needs too much memory to be read"
    assert blob.scan("a", 10).problem is None
    blob.close()


@pytest.mark.parametrize(
    ("source", "problem", "place"),
    [
        ("let a = 1; let a = 2", "invalid redefinition of global identifier", (1, 18)),
        ("1;\n  \r\n'é😀'; const b = 1, b = 2", "invalid redefinition", (3, 22)),
        ("export {a}", "exported variable 'a' does not exist", (1, 1)),
        ("let a; export {a}; export {a}", "duplicate exported name 'a'", (1, 29)),
        ("const a = /(/", "expecting ')'", (1, 1)),
        ("class A<B> {}", "Unexpected token '<'", (1, 8)),
        ("label: { break other }", "break/continue label not found", (1, 16)),
        ("class A { #a; #a }", "private class field is already defined", (1, 18)),
        ("a?.b = 1", "invalid assignment left-hand side", (1, 8)),
        ("08", "Octal literals are not allowed in strict mode", (1, 1)),
        ("super()", "super() is only valid in a derived class constructor", (1, 6)),
    ],
)
def test_syntax_that_quickjs_refuses_is_reported(
    lexer: Lexer, source: str, problem: str, place: tuple[int, int]
) -> None:
    result = lexer.scan(source)
    assert result.problem is not None
    assert result.problem.startswith(problem)
    assert Lines(source).place(result.problem_at) == place


@pytest.mark.parametrize(
    "source",
    [
        "",
        "await 1; for await (const a of []) {}",
        "import {a} from './b.mjs'; export * from './c.mjs'; export {d} from './e.mjs'",
        "import a from './a.json' with {type: 'json'}",
        "import * as flo from 'flo:runtime'; export default () => flo.callTool({})",
        "while (true) {}",
        "throw new Error('not at load')",
    ],
)
def test_a_checked_module_does_not_run(lexer: Lexer, source: str) -> None:
    assert lexer.scan(source).problem is None


def test_a_thousand_modules_stay_within_the_kept_memory(machine_code: Path) -> None:
    grammar = Grammar(SystemClock(), machine_code)
    source = "export const value = [" + "'a text', " * 1_000 + "];"
    for _ in range(200):
        assert grammar.check(source, 10) is None
    assert grammar.check("let a; let a", 10) is not None
    grammar.close()


def test_a_check_stops_at_its_time_limit(machine_code: Path) -> None:
    grammar = Grammar(SystemClock(), machine_code)
    result = grammar.check("a;" * 1_000_000, 0.01)
    assert result is not None
    assert result.is_late
    assert grammar.check("a;", 10) is None
    grammar.close()
