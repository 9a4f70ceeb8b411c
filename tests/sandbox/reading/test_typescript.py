"""Types go, positions stay, and no source hangs the host."""

import re
import threading
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.reading.typescript import TypeScript
from penstock.testing.clock import FakeClock

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
def test_what_cannot_be_erased_is_named(
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
def test_what_only_looks_so_is_erased(typescript: TypeScript, source: str) -> None:
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
def test_an_error_stands_where_the_author_sees_it(
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
def test_endless_nesting_is_an_error_and_costs_nothing(typescript: TypeScript, source: str) -> None:
    said = typescript.strip_types(source).problem
    assert said == "it is nested too deeply, or needs too much memory to be read"
    assert typescript.strip_types("let a: 1").source == "let a   "


@pytest.mark.slow("four megabytes are read")
def test_the_largest_source_is_read(typescript: TypeScript) -> None:
    line = "export const value_0: number = 1; // a remark\n"
    source = line * ((4 << 20) // len(line))
    assert typescript.strip_types(source).source.count(":") == 0


def test_what_takes_too_long_is_given_up(machine_code: Path) -> None:
    hasty = TypeScript(SystemClock(), machine_code, seconds=0.02)
    source = "export const value: number = [1, 2, 3].length;\n" * 40_000
    assert hasty.strip_types(source).problem == "to read it takes longer than 0.02 s"
    assert hasty.strip_types("let a: 1").source == "let a   "
    hasty.close()


def test_threads_take_turns(typescript: TypeScript) -> None:
    wrong: list[str] = []

    def strip(number: int) -> None:
        said = {typescript.strip_types(f"let a{number}: x").source for _ in range(20)}
        wrong.extend(said - {f"let a{number}   "})

    threads = [threading.Thread(target=strip, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_closed_one_begins_anew(machine_code: Path) -> None:
    strips = TypeScript(SystemClock(), machine_code)
    assert strips.strip_types("let a: 1").source == "let a   "
    strips.close()
    assert strips.strip_types("let a: 1").source == "let a   "
    strips.close()


def test_each_source_has_the_seconds_for_itself(machine_code: Path) -> None:
    clock = FakeClock()
    reads = TypeScript(clock, machine_code)
    for _ in range(20):
        assert reads.strip_types("import 'a'").problem is None
        clock.advance(1000)
    reads.close()
