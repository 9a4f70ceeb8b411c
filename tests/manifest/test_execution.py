"""The script of a tool."""

from pathlib import Path

import pytest

from penstock.manifest.document import SourceRange
from tests.kit.manifests import findings, load, tool

FILES = {"run.mts": "", "old.js": "", "note.txt": ""}
WRONG = [
    (
        "{type: script}",
        (
            '4:12: error exactly-one: "execution" must have exactly one of "script" and '
            '"script_file"; found neither'
        ),
    ),
    (
        "{type: script, script: x, script_file: run.mts}",
        (
            '4:38: error exactly-one: "execution" must have exactly one of "script" and '
            '"script_file"; found both'
        ),
    ),
    (
        "{type: http, script: x}",
        '4:19: error bad-value: "execution.type" must be "script", found string "http"',
    ),
    (
        "{type: 1, script: x}",
        '4:19: error wrong-type: "execution.type" must be "script", found number 1',
    ),
    ("{script: x}", '4:1: error missing-key: "execution" must have "type"'),
    ("run.mts", '4:12: error wrong-type: "execution" must be a mapping, found string "run.mts"'),
    (
        "{type: script, script: ''}",
        (
            '4:35: error bad-value: "execution.script" must be JavaScript or TypeScript source, '
            'found string ""'
        ),
    ),
    (
        "{type: script, script: x, entrypoint: a-b}",
        (
            '4:50: error bad-value: "execution.entrypoint" must be the name of an exported '
            "function, "
            'found string "a-b"'
        ),
    ),
    (
        "{type: script, script: x, engine: v8}",
        '4:46: error bad-value: "execution.engine" must be one of wasm, deno, found string "v8"',
    ),
    (
        "{type: script, scriptfile: run.mts, script: x}",
        (
            '4:27: error unknown-key: unknown key "scriptfile" in "execution"; '
            'did you mean "script_file"?'
        ),
    ),
    (
        "{type: script, script_file: note.txt}",
        (
            '4:40: error bad-value: "execution.script_file" must be a relative path to a .mts, '
            ".mjs, "
            '.ts or .js file, found string "note.txt"'
        ),
    ),
]


@pytest.mark.parametrize(("value", "message"), WRONG)
def test_an_invalid_execution_is_reported_at_its_position(
    tmp_path: Path, value: str, message: str
) -> None:
    """B07: "define exactly one of: script, script_file"; both, neither: `exactly-one`."""
    reported = findings(tmp_path, {**FILES, "a.tool.yaml": tool(execution=value)})
    assert reported == [f"a.tool.yaml:{message}"]


@pytest.mark.parametrize("name", ["run", "default", "$x", "_a1", "ünï"])
def test_the_entrypoint_is_a_name_that_a_module_may_export(tmp_path: Path, name: str) -> None:
    """B10: "entrypoint to select the exported function"."""
    value = f"{{type: script, script_file: old.js, entrypoint: {name}}}"
    bundle = load(tmp_path, {**FILES, "a.tool.yaml": tool(execution=value)})
    assert bundle.tools["a"].execution.entrypoint == name


INLINE = """
execution:
  type: script
  script: |
    export function run() {
      return 1;
    }
"""


def test_an_inline_script_has_the_position_of_its_first_character(tmp_path: Path) -> None:
    """B08: "inline JavaScript or TypeScript". B10: none given: `run`."""
    bundle = load(tmp_path, {"a.tool.yaml": tool(INLINE, execution="")})
    execution = bundle.tools["a"].execution
    assert execution.script == "export function run() {\n  return 1;\n}\n"
    assert execution.entrypoint == "run"
    assert execution.script_at == SourceRange(line=7, column=5)


@pytest.mark.parametrize(
    ("scalar", "place"),
    [
        ("|\n    one\n    two", SourceRange(line=8, column=7)),
        ("|2-\n      one\n    two", SourceRange(line=8, column=7)),
        ("one two", SourceRange(line=6, column=15)),
        ("'one two'", SourceRange(line=6, column=16)),
        ('"one\\ntwo"', SourceRange(line=6, column=12)),
        (">\n    one\n    two", SourceRange(line=7, column=5)),
        ("one\n    two", SourceRange(line=6, column=11)),
        ("'a ''b'' c'", SourceRange(line=6, column=12)),
    ],
)
def test_a_position_in_a_script_maps_to_the_manifest(
    tmp_path: Path, scalar: str, place: SourceRange
) -> None:
    """M12: "load errors point into the YAML file"; never out of the line of a scalar."""
    written = f"execution:\n  type: script\n  script: {scalar}\n"
    (finding,) = load(tmp_path, {"a.tool.yaml": tool(written, execution="")}).every_tool
    is_one_line = "\n" not in (finding.execution.script or "").strip()
    assert finding.execution.place_of(*((1, 5) if is_one_line else (2, 3))) == place


def test_an_inline_script_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    source = "x" * 262_145
    (finding,) = findings(tmp_path, {"a.tool.yaml": tool(execution=f"{{script: {source}}}")})
    assert "error file-too-large: the manifest has 262" in finding
