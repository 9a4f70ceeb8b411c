"""Reads what can be read of a source with mistakes, so that one mistake does not hide others.

`masked` blanks comments and the contents of strings, so that patterns find code only; it needs no
valid syntax. It does not know regular expression literals: a quote in one hides the rest of its
line, a backtick everything up to the next one. So its readers are the findings in sources that
cannot be parsed, and one warning (`absent-global`). Every replacement keeps all offsets: problems
are reported at the author's positions. Proof: tests/sandbox/compiler/test_broken_source.py.
"""

import re
from collections.abc import Callable, Iterator

from penstock.sandbox.compiler.parsers import DECORATOR

_BLOCK = re.compile(r"(?:const\s+)?(?:enum|namespace|module)\s+([\w$]+)[\w$.\s]*(?=\{)")
_DECLARED = r"\b(?:class|function|enum|const|let|var)\b[\s*]*{name}(?![\w$])"
_MODIFIERS = re.compile(r"(?:\b(?:public|private|protected|readonly|override)\s+)+$")
_IMPORT_EQUALS = re.compile(r"(?:export\s+)?(import)\s+[\w$]+(\s*=\s*[\w$.]+(?:\s*\([^)]*\))?)")
_EXPORT_EQUALS = re.compile(r"export\s*=")
_DECORATOR = re.compile(r"@\s*[\w$.]*")
_STATIC = re.compile(
    r"(?P<head>(?:^|(?<=;))[ \t]*(?:import|export)\b)"
    r"|(?:\bfrom|(?<=import))\s*(?P<tail>'[^'\r\n]*'|\"[^\"\r\n]*\")(?:\s*with\s*\{[^{}]*\})?;?"
    r"|[;=()]",
    re.MULTILINE,
)
_EXPORT_ALL = re.compile(r"\bexport\s*\*")
_EXPORT_NAME = re.compile(
    r"\bexport\s+(?:async\s+)?(?:function\s*\*?|class|const|let|var)\s+([\w$]+)"
)
_WORD = re.compile(r"[\w$]+")
_DYNAMIC = re.compile(r"(?<![.\w$])import\s*(\(|\.\s*meta\b)")
_ENUM = re.compile(r"^[ \t]*(?:export\s+)?((?:const\s+)?enum)\s+[\w$]+\s*\{", re.MULTILINE)
_NEXT = re.compile(
    r"//[^\r\n]*|/\*.*?(?:\*/|\Z)|'(?:\\.|[^'\\\r\n])*'?|\"(?:\\.|[^\"\\\r\n])*\"?|[`{}]", re.DOTALL
)
_IN_TEMPLATE = re.compile(r"(?:\\.|\$(?!\{)|[^`\\$])*(`|\$\{|\\?\Z)", re.DOTALL)
_VISIBLE = re.compile(r"[^\r\n]")
_CLOSES = {"{": "}", "(": ")", "<": ">", "[": "]"}
_BRACKET = re.compile(r"=>|[{}()<>\[\]]")


def without(text: str, construct: str, at: int) -> str | None:
    """Return the source with a construct replaced that cannot be erased; None if not found.

    All offsets stay the same, and a declared name stays declared: other code may use it.
    """
    replaced = _WAYS[construct](text, masked(text), at) if construct in _WAYS else None
    return None if replaced == text else replaced


def imports_alone(text: str) -> str:
    """Return the source with everything blanked but its static imports."""
    parts, end = [], 0
    for begin, stop in _imports(masked(text)):
        parts += [blank(text[end:begin]), text[begin:stop]]
        end = stop
    return "".join([*parts, blank(text[end:])])


def forbidden(text: str) -> Iterator[tuple[int, str]]:
    """Yield the offset of each forbidden `import()`, `import.meta` and `enum`."""
    mask = masked(text)
    for dynamic in _DYNAMIC.finditer(mask):
        yield dynamic.start(), "import()" if dynamic[1] == "(" else "import.meta"
    for enum in _ENUM.finditer(mask):
        yield enum.start(1), "enum"


def masked(text: str) -> str:
    """Return a text of the same length that keeps code, quotes and line ends."""
    parts, end = [], 0
    for begin, stop in _hidden(text):
        parts += [text[end:begin], blank(text[begin:stop])]
        end = stop
    return "".join([*parts, text[end:]])


def blank(text: str) -> str:
    """Replace everything but line ends by spaces."""
    return _VISIBLE.sub(" ", text)


def closing(mask: str, at: int) -> int | None:
    """Return the offset after the bracket that closes the one at `at`, or None."""
    opens = mask[at : at + 1]
    closes, depth = _CLOSES[opens], 0
    for bracket in _BRACKET.finditer(mask, at):
        if bracket[0] == opens:
            depth += 1
        elif bracket[0] == closes:
            depth -= 1
            if not depth:
                return bracket.end()
    return None


def may_export(mask: str, name: str) -> bool:
    """Whether a broken source could export a name: it contains the name, or `export *`."""
    return _EXPORT_ALL.search(mask) is not None or name in _WORD.findall(mask)


def exported(mask: str) -> list[str]:
    """Return the names in the export declarations of a broken source."""
    return sorted(set(_EXPORT_NAME.findall(mask)))


def _imports(mask: str) -> Iterator[tuple[int, int]]:
    begin: int | None = None
    for token in _STATIC.finditer(mask):
        if token["head"] is not None:
            begin = token.start()
            continue
        if token["tail"] is not None and begin is not None:
            yield begin, token.end()
        begin = None


def _block(text: str, mask: str, at: int) -> str | None:
    """Replace a block by a variable of its name, unless the name is declared elsewhere, too."""
    head = _BLOCK.match(mask, at)
    end = None if head is None else closing(mask, head.end())
    if head is None or end is None:
        return None
    before, name = mask[:at], head[1]
    declared = re.compile(_DECLARED.format(name=re.escape(name)))
    around = before + blank(mask[at:end]) + mask[end:]
    if before.rstrip().endswith("default"):
        return _put(text, at, end, "0;")
    if declared.search(around):
        begin = before.rstrip().removesuffix("export")
        return _put(text, len(begin), end, "")
    return _put(text, at, end, f"var {name};")


def _parameter_property(text: str, mask: str, at: int) -> str | None:
    match = _MODIFIERS.search(mask, max(0, at - 200), at)
    return None if match is None else _put(text, match.start(), at, "")


def _import_equals(text: str, mask: str, at: int) -> str | None:
    match = _IMPORT_EQUALS.match(mask, at)
    if match is None:
        return None
    return _put(_put(text, *match.span(2), ""), *match.span(1), "var")


def _export_equals(text: str, mask: str, at: int) -> str | None:
    match = _EXPORT_EQUALS.match(mask, at)
    return None if match is None else _put(text, at, match.end(), "")


def _cast(text: str, mask: str, at: int) -> str | None:
    end = closing(mask, at) if mask[at : at + 1] == "<" else None
    return None if end is None else _put(text, at, end, "")


def _decorator(text: str, mask: str, at: int) -> str | None:
    match = _DECORATOR.match(mask, at)
    if match is None:
        return None
    end: int | None = match.end()
    if mask[match.end() : match.end() + 1] == "(":
        end = closing(mask, match.end())
    return None if end is None else _put(text, at, end, "")


def _put(text: str, begin: int, end: int, instead: str) -> str:
    """Overwrite a part of a text; the offsets after it stay the same."""
    rest = blank(text[begin + len(instead) : end])
    return text[:begin] + instead + rest + text[end:]


def _hidden(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges that are not code: comments, and the contents of strings and templates."""
    # The depth of braces in each open `${…}`: a `}` at depth 0 continues its template.
    depths: list[int] = []
    at = 0
    while (token := _NEXT.search(text, at)) is not None:
        at, sign = token.end(), token[0]
        if sign == "{" and depths:
            depths[-1] += 1
        elif sign == "}" and depths and depths[-1]:
            depths[-1] -= 1
        elif sign == "`" or (sign == "}" and depths):
            if sign == "}":
                depths.pop()
            inside = _IN_TEMPLATE.match(text, at)
            stop = len(text) if inside is None else inside.end()
            ends = inside is not None and inside[1] == "`"
            yield token.start() if sign == "}" else at, stop - ends
            if inside is not None and inside[1] == "${":
                depths.append(0)
            at = stop
        elif sign[0] == "/":
            yield token.start(), at
        elif sign[0] in "'\"":
            yield token.start() + 1, at - (len(sign) > 1 and sign[-1] == sign[0])


_WAYS: dict[str, Callable[[str, str, int], str | None]] = {
    "enum": _block,
    "namespace": _block,
    "a parameter property": _parameter_property,
    "import ... =": _import_equals,
    "export =": _export_equals,
    "a <T>x cast": _cast,
    DECORATOR: _decorator,
}
"""By the names of constructs in `typescript`."""
