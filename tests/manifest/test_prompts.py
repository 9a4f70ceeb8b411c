"""The start of every system prompt."""

from pathlib import Path

import pytest

from penstock.manifest.document import SourceRange
from tests.kit.manifests import findings, load

PROMPTS = """
execution:
  preamble: You work for the harbour.
system_prompt_resolver:
  script_file: prompt.mts
  entrypoint: resolve
  timeout_ms: 5000
"""


def test_prompts_have_a_preamble_and_a_resolver(tmp_path: Path) -> None:
    bundle = load(tmp_path, {"x/p.prompts.yaml": PROMPTS, "x/prompt.mts": ""})
    prompts = bundle.prompts
    assert prompts is not None
    assert prompts.resolver is not None
    assert not bundle.diagnostics
    assert (prompts.preamble, prompts.folder) == ("You work for the harbour.", "x")
    assert (prompts.resolver.entrypoint, prompts.resolver.timeout_ms) == ("resolve", 5000)
    assert prompts.resolver.script_at == SourceRange(line=5, column=16)


def test_neither_of_two_prompts_files_is_used(tmp_path: Path) -> None:
    text = "execution: {preamble: x}"
    bundle = load(tmp_path, {"a.prompts.yaml": text, "b.prompts.yaml": text})
    assert bundle.prompts is None
    assert [each.code for each in bundle.diagnostics] == ["second-prompts"] * 2


WRONG = [
    ("x-a: 1", '1:1: error missing-key: a prompts manifest must have "execution"'),
    ("execution: {}", '1:1: error missing-key: "execution" must have "preamble"'),
    (
        "execution: {preamble: ' '}",
        (
            '1:23: error bad-value: "execution.preamble" must be a string of 1 to 65536 bytes '
            "that is "
            'not blank, found string " "'
        ),
    ),
    (
        (
            "execution: {preamble: x}\nsystem_prompt_resolver: {script_file: a.ts, entrypoint: r, "
            "timeout_ms: 1}"
        ),
        (
            '2:39: error bad-value: "system_prompt_resolver.script_file" must be a relative path '
            "to a "
            '.mts or .mjs file, found string "a.ts"'
        ),
    ),
    (
        (
            "execution: {preamble: x}\nsystem_prompt_resolver: {script_file: a.mts, entrypoint: r, "
            "timeout_ms: 60001}"
        ),
        (
            '2:73: error bad-value: "system_prompt_resolver.timeout_ms" must be an integer from '
            "1 to "
            "60000, found number 60001"
        ),
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_an_invalid_prompt_is_reported_at_its_position(
    tmp_path: Path, text: str, message: str
) -> None:
    files = {"p.prompts.yaml": text, "a.ts": "", "a.mts": ""}
    assert findings(tmp_path, files) == [f"p.prompts.yaml:{message}"]
