"""Reading a source with mistakes: masks, imports, forbidden constructs, exports."""

import pytest

from penstock.sandbox.compiler.broken_source import (
    blank,
    closing,
    forbidden,
    imports_alone,
    masked,
    without,
)


@pytest.mark.parametrize(
    ("construct", "text", "at", "rest"),
    [
        ("enum", "enum A { b }; c", 0, "var A;      ; c"),
        ("enum", "export const enum A {}", 7, "export var A;"),
        ("enum", "export default enum A {} b", 15, "export default 0;       b"),
        ("enum", "enum A {}\nenum A {}", 0, "\nenum A {}"),
        ("namespace", "class A {}\nexport namespace A.B { '}' }", 18, "class A {}"),
        ("namespace", "module A { `${'}'}` }", 0, "var A;"),
        ("a parameter property", "constructor(public readonly a)", 28, "constructor(a)"),
        ("a parameter property", "public a", 7, "a"),
        ("import ... =", "import a = require('b'); c", 0, "var a; c"),
        ("import ... =", "export import a = b.c;", 0, "export var a;"),
        ("export =", "export = a", 0, "a"),
        ("a <T>x cast", "f(<A<() => B>>c)", 2, "f(c)"),
        ("a decorator", "@a.b({c: ')'}) class D {}", 0, "class D {}"),
        ("a decorator", "@(a(b)) class D {}", 0, "class D {}"),
    ],
)
def test_a_construct_that_cannot_be_erased_is_replaced_in_place(
    construct: str, text: str, at: int, rest: str
) -> None:
    result = without(text, construct, at)
    assert result is not None
    assert len(result) == len(text)
    assert "".join(result.split()) == "".join(rest.split())


@pytest.mark.parametrize(
    ("construct", "text", "at"),
    [
        ("enum", "enum A {", 0),
        ("enum", "a", 0),
        ("a <T>x cast", "<a", 0),
        ("a <T>x cast", "", 9),
        ("a decorator", "@a(", 0),
        ("a parameter property", "a", 0),
        ("something new", "a", 0),
        ("import ... =", "import 'a'", 0),
    ],
)
def test_a_construct_that_is_not_found_changes_nothing(construct: str, text: str, at: int) -> None:
    assert without(text, construct, at) is None


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("import 'a'; b; import {c} from \"d\"", "import 'a'; import {c} from \"d\""),
        ("import a from 'b' with {c: 'd'};c", "import a from 'b' with {c: 'd'};"),
        ("export * from 'a'\nexport const b = 'from'", "export * from 'a'"),
        ("import {\n  a,\n} from 'b'\nlet c = {", "import { a, } from 'b'"),
        ("// import 'a'\nconst b = `\nimport 'c'`", ""),
        ("import a = require('b'); c from 'd'", ""),
        ("import('a'); from 'b'", ""),
    ],
)  # fmt: skip
def test_imports_are_kept_in_any_surroundings(text: str, imports: str) -> None:
    result = imports_alone(text)
    assert len(result) == len(text)
    assert result.split() == imports.split()


def test_forbidden_constructs_are_found() -> None:
    text = "import ('a'); b.import('c'); import.meta;\nexport const enum D {}\n// import('e')"
    assert list(forbidden(text)) == [(0, "import()"), (29, "import.meta"), (49, "enum")]


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("a // b\nc", "a     \nc"),
        ("a /* {\n */ b", "a     \n    b"),
        ("f('{') + \"}\"", "f(' ') + \" \""),
        (r"'a\'b' + c", "'    ' + c"),
        ("'a\nb", "' \nb"),
        ("`a${b}c` + d", "`   b  ` + d"),
        ("`a${ {b: `}${c}`} }` + {d}", "`    {b: `   c `}  ` + {d}"),
        (r"`\`$` + a", "`   ` + a"),
        ("`a${", "`   "),
        ("`a\n b", "` \n  "),
        ("/*", "  "),
        ("", ""),
    ],
)
def test_a_mask_keeps_code_and_all_offsets(text: str, mask: str) -> None:
    assert masked(text) == mask


@pytest.mark.parametrize(
    ("mask", "end"),
    [("{a{b}}c", 6), ("<(a: b) => c>d", 13), ("<a<b>>c", 6), ("(()", None), ("{", None)],
)
def test_a_bracket_is_closed_by_its_own_kind(mask: str, end: int | None) -> None:
    assert closing(mask, 0) == end


def test_a_mask_keeps_line_ends() -> None:
    assert blank("a\r\nb\tc") == " \r\n   "
