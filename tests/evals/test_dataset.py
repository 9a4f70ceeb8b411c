"""Datasets in Python and in files."""

from pathlib import Path

import pytest

from penstock.core.errors import ConfigError, DeclarationError
from penstock.evals.case import Case
from penstock.evals.dataset import Dataset
from penstock.evals.scorers import CalledTool, Contains, Equal, Judge, Matches, MaxCost, MaxSeconds

WHOLE = """
name: tickets
agent: triage
scorers:
  - equal
  - contains: fire
  - matches: {regex: "^F"}
  - called_tool: {tool: label, input: {severity: high}}
  - not_called: refund
  - called_in_order: [look, label]
  - max_cost: 0.01
  - max_turns: 4
  - max_seconds: 10
  - judge: {model: "openai:gpt-5", rubric: Names the cause.}
cases:
  - name: burns
    input: The printer burns
    expected: {title: fire, severity: high}
    metadata: {area: office}
    approve: true
  - name: slow
    input: It is slow
    answers: [{decision: reject, note: "no"}, {value: false}]
    scorers: [{max_turns: 2}]
"""


def test_a_file_holds_the_name_the_agent_the_scorers_and_the_cases(tmp_path: Path) -> None:
    dataset = Dataset.from_file(_file(tmp_path, WHOLE))
    burns, slow = dataset.cases
    assert (dataset.name, dataset.agent) == ("tickets", "triage")
    assert [repr(each) for each in dataset.scorers] == [
        repr(each)
        for each in (
            Equal(),
            Contains("fire"),
            Matches(regex="^F"),
            CalledTool("label", severity="high"),
            CalledTool.never("refund"),
            CalledTool.in_order("look", "label"),
            MaxCost(0.01),
            *dataset.scorers[7:8],
            MaxSeconds(10),
            Judge("openai:gpt-5", "Names the cause."),
        )
    ]
    assert (burns.input, burns.approve) == ("The printer burns", True)
    assert burns.expected == {"title": "fire", "severity": "high"}
    assert burns.metadata == {"area": "office"}
    assert (list(slow.answers), burns.answers) == (
        [{"decision": "reject", "note": "no"}, {"value": False}],
        (),
    )
    assert (slow.expected, slow.approve, len(slow.scorers)) == (None, False, 1)


def test_a_file_without_a_name_gives_its_own(tmp_path: Path) -> None:
    text = "cases:\n  - {name: a, input: b}\n"
    assert Dataset.from_file(_file(tmp_path, text, "manners.yml")).name == "manners"


def test_a_line_of_jsonl_is_a_case(tmp_path: Path) -> None:
    text = '{"name": "a", "input": "one"}\n\n{"name": "b", "input": "two", "expected": 2}\n'
    dataset = Dataset.from_file(_file(tmp_path, text, "sums.jsonl"))
    assert [(each.name, each.input, each.expected) for each in dataset.cases] == [
        ("a", "one", None),
        ("b", "two", 2),
    ]


PROBLEMS = {
    "cases: [{name: a}]": ["1", '"cases[0]" must have "input"'],
    "cases: [{name: ' ', input: b}]": ["1", "a case needs a name"],
    "cases: []": ["1", "a list of cases"],
    "- a\n": ["1", "a mapping with a list of cases"],
    "": ["1", "a mapping with a list of cases"],
    "cases:\n  - {name: a, input: b}\n  - {name: a, input: c}": ["3", '"a" is declared twice'],
    "scorers: [equals]\ncases: [{name: a, input: b}]": ["1", "one of equal"],
    "scorers: [matches]\ncases: [{name: a, input: b}]": ["1", "contains, {contains: …}, {matches"],
    "scorers: [judge: {model: offline, rubric: x}]\ncases: [{name: a, input: b}]": [
        "1",
        "a Judge needs a language model",
    ],
    "scorers: [{equal: 1}]\ncases: [{name: a, input: b}]": ["1", "one of equal"],
    "scorers: [{matches: {regex: '('}}]\ncases: [{name: a, input: b}]": ["1", "its pattern"],
    "scorers: [{matches: {}}]\ncases: [{name: a, input: b}]": ["1", "exactly one of regex"],
    "scorers: [{max_turns: 0}]\ncases: [{name: a, input: b}]": ["1", "an integer from 1"],
    "cases: [{name: a, input: b, expect: c}]": ["1", 'did you mean "expected"?'],
    "cases: [{name: a, input: 'b}]": ["1", "a quote is opened here"],
}


@pytest.mark.parametrize("text", PROBLEMS)
def test_a_problem_names_its_line_and_what_to_write(tmp_path: Path, text: str) -> None:
    line, *parts = PROBLEMS[text]
    with pytest.raises(DeclarationError) as raised:
        Dataset.from_file(_file(tmp_path, text))
    assert f"cases.yaml:{line}:" in str(raised.value)
    assert all(part in str(raised.value) for part in parts), str(raised.value)


def test_one_broken_case_of_many_is_reported_before_any_model_is_asked(tmp_path: Path) -> None:
    good = '{"name": "a", "input": "one"}\n'
    with pytest.raises(DeclarationError) as raised:
        Dataset.from_file(_file(tmp_path, good + '{"name": "b", \n' + '{"name": 3}\n', "x.jsonl"))
    lines = [each.line for each in raised.value.diagnostics]
    assert lines[0] == 2
    assert set(lines) == {2, 3}


UNREADABLE = {
    "missing.yaml": r"there is no file .*missing.yaml\.$",
    "triag.yaml": r"there is no file .* Did you mean '.*triage.yaml'\?",
    "folder.yaml": "cannot read .*folder.yaml: Is a directory",
    "cases.csv": "must end in .yaml, .yml or .jsonl",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "triage.yaml").touch()
    with pytest.raises(ConfigError, match=UNREADABLE[name]):
        Dataset.from_file(tmp_path / name)


def test_a_file_that_is_in_the_folder_of_evals_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "triage.yaml").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"Did you mean 'evals/triage.yaml'\?"):
        Dataset.from_file("triage.yaml")


def test_bytes_that_are_no_text_are_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot read"):
        Dataset.from_file(tmp_path / "cases.yaml")


def test_a_dataset_needs_cases_with_unique_names() -> None:
    with pytest.raises(ConfigError, match="has no cases"):
        Dataset("empty", [])
    with pytest.raises(ConfigError, match="several cases named 'a'"):
        Dataset("twice", [Case("a", input="b"), Case("a", input="c")])


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    __hash__ = str.__hash__
    compared = 0

    def __eq__(self, other: object) -> bool:
        """Count."""
        Name.compared += 1
        return str(self) == str(other)


def test_a_file_may_search_for_what_its_case_expects(tmp_path: Path) -> None:
    text = "scorers: [contains]\ncases: [{name: a, input: b, expected: c}]"
    assert Dataset.from_file(_file(tmp_path, text)).scorers == (Contains(),)


def test_the_names_of_cases_are_checked_in_linear_time() -> None:
    Dataset("many", [Case(Name(f"case {number}"), input="b") for number in range(100)])
    assert Name.compared < 100


def _file(folder: Path, text: str, name: str = "cases.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path
