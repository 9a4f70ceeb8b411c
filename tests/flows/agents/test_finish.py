"""Parameters of `finish`, and refusals."""

from typing import Any

import pytest

from penstock.core.events.flow_events import FileUse, Output, StepStatus, ValueType
from penstock.flows.agents.finish import (
    AcceptedFinish,
    FinishContract,
    RejectedFinish,
    compiled,
    merged,
)

PLAIN = {"status": "complete", "summary": "done", "files": []}
DECISION = FinishContract(branches=("a", "b"))
SEVERAL = FinishContract(branches=("a", "b"), is_multiple=True)
TYPED = FinishContract(
    outputs=(
        Output(name="note"),
        Output(name="count", value_type=ValueType.NUMBER, is_required=True),
        Output(name="key", pattern="^k[0-9]+$", is_required=True),
    )
)


def problems_in(judged: AcceptedFinish | RejectedFinish) -> list[str]:
    assert isinstance(judged, RejectedFinish)
    return [str(each) for each in judged.problems]


def test_the_parameters_are_those_of_the_seed() -> None:
    """T24: without a decision there is no `branch`, and `artifacts` may be left out."""
    schema = FinishContract().parameters
    assert schema["required"] == ["status", "summary", "files"]
    assert schema["properties"]["status"] == {"enum": ["complete", "error", "blocked"]}
    assert list(schema["properties"]) == ["status", "summary", "artifacts", "files"]
    assert schema["additionalProperties"] is True


def test_a_branch_has_the_names_of_the_branches_as_its_allowed_values() -> None:
    """T25: the guard injects a branch parameter whose allowed values are the branch names."""
    assert DECISION.parameters["properties"]["branch"] == {"enum": ["a", "b"]}
    assert "branch" in DECISION.parameters["required"]


def test_several_branches_are_a_list_without_repeats() -> None:
    """N1."""
    assert SEVERAL.parameters["properties"]["branch"] == {
        "type": "array",
        "items": {"enum": ["a", "b"]},
        "minItems": 1,
        "uniqueItems": True,
    }


def test_declared_outputs_are_optional_strings_unless_they_have_a_type() -> None:
    """T27, N2: those names are added as optional string parameters on finish."""
    schema = TYPED.parameters
    assert schema["properties"]["note"] == {"type": "string"}
    assert schema["properties"]["count"] == {"type": "number"}
    assert schema["properties"]["key"] == {"type": "string", "pattern": "^k[0-9]+$"}
    assert schema["required"][3:] == ["count", "key"]


def test_the_result_is_taken_from_the_parameters() -> None:
    """T29: the engine extracts the result from the finish call parameters."""
    judged = TYPED.judge(
        {
            "status": "complete",
            "summary": "s",
            "files": [{"path": "a.py", "action": "created"}],
            "artifacts": "<x/>",
            "note": "n",
            "count": 3,
            "key": "k12",
            "extra": 1,
            "branch": "a",
        }
    )
    assert isinstance(judged, AcceptedFinish)
    result = judged.result
    assert (result.status, result.summary, result.artifacts) == (StepStatus.COMPLETE, "s", "<x/>")
    assert result.files == (FileUse("a.py", "created"),)
    assert result.outputs == {"note": "n", "count": 3, "key": "k12"}
    assert judged.undeclared == ("extra", "branch")
    assert not {"extra", "branch"} & set(result.finish or {})


@pytest.mark.parametrize(
    ("contract", "arguments", "expected"),
    [
        (FinishContract(), {}, ["/status: is required", "/summary: is required"]),
        (FinishContract(), PLAIN | {"status": "done"}, ["/status"]),
        (FinishContract(), PLAIN | {"status": ["error"]}, ["/status"]),
        (DECISION, PLAIN | {"status": {}, "branch": "a"}, ["/status"]),
        (FinishContract(), PLAIN | {"summary": 3}, ["/summary"]),
        (FinishContract(), PLAIN | {"files": "a.py"}, ["/files"]),
        (
            FinishContract(),
            PLAIN | {"files": [{"path": "a", "action": "burnt"}]},
            ["/files/0/action"],
        ),
        (FinishContract(), PLAIN | {"artifacts": {}}, ["/artifacts"]),
        (TYPED, PLAIN | {"count": "3", "key": "k1"}, ["/count"]),
        (TYPED, PLAIN | {"count": 3, "key": "x"}, ["/key"]),
        (TYPED, PLAIN, ["/count: is required", "/key: is required"]),
    ],
)
def test_an_invalid_call_receives_every_problem(
    contract: FinishContract, arguments: dict[str, Any], expected: list[str]
) -> None:
    """N4."""
    problems = problems_in(contract.judge(arguments))
    assert len(problems) == len(expected)
    assert all(each.startswith(start) for each, start in zip(problems, expected, strict=True))


@pytest.mark.parametrize(
    ("contract", "arguments", "expected"),
    [
        (DECISION, {"branch": "c"}, 'branch must be one of a, b; found "c"'),
        (DECISION, {}, "branch must be one of a, b; found nothing"),
        (DECISION, {"branch": None}, "branch must be one of a, b; found null"),
        (DECISION, {"branch": ["a"]}, 'branch must be one of a, b; found ["a"]'),
        (DECISION, {"branch": {"a": 1}}, 'branch must be one of a, b; found {"a": 1}'),
        (SEVERAL, {"branch": "a"}, 'branch must be a list of a, b; found "a"'),
        (SEVERAL, {"branch": []}, "branch must be a list of a, b; found []"),
        (SEVERAL, {"branch": ["a", "a"]}, 'branch must be a list of a, b; found ["a", "a"]'),
        (SEVERAL, {"branch": [["a"]]}, 'branch must be a list of a, b; found [["a"]]'),
    ],
)
def test_a_bad_branch_is_reported_as_such(
    contract: FinishContract, arguments: dict[str, Any], expected: str
) -> None:
    """N4: `branch must be one of a, b; found "c"`."""
    judged = contract.judge(PLAIN | arguments)
    assert problems_in(judged) == [f"/branch: {expected}"]
    assert isinstance(judged, RejectedFinish)
    assert judged.is_bad_branch


def test_a_bad_branch_and_another_problem_count_as_a_bad_branch() -> None:
    judged = DECISION.judge({"status": "complete", "summary": 1, "branch": "c"})
    assert isinstance(judged, RejectedFinish)
    assert judged.is_bad_branch
    assert [each.path for each in judged.problems] == ["/branch", "/summary"]


@pytest.mark.parametrize("status", ["error", "blocked"])
def test_an_agent_that_failed_need_not_pass_a_branch_or_outputs(status: str) -> None:
    """N3: `branch` may be missing when `status` is not `complete`; soft, whatever it says."""
    both = FinishContract(outputs=TYPED.outputs, branches=("a", "b"))
    for more in ({}, {"branch": "c"}):
        judged = both.judge({"status": status, "summary": "no", **more})
        assert isinstance(judged, AcceptedFinish)
        assert judged.result.branch is None


def test_missing_files_count_as_none() -> None:
    """N3."""
    judged = FinishContract().judge({"status": "complete", "summary": "s"})
    assert isinstance(judged, AcceptedFinish)
    assert judged.result.files == ()


def test_an_undeclared_branch_is_dropped() -> None:
    judged = FinishContract().judge(PLAIN | {"branch": "x"})
    assert isinstance(judged, AcceptedFinish)
    assert judged.result.branch is None
    assert judged.undeclared == ("branch",)


def test_an_equal_contract_is_not_compiled_again() -> None:
    first, other = (
        FinishContract(outputs=TYPED.outputs),
        FinishContract(outputs=TYPED.outputs, branches=("a",)),
    )
    assert compiled(first) is compiled(FinishContract(outputs=TYPED.outputs))
    assert compiled(other) is not compiled(first)


def test_outputs_of_a_step_override_those_of_its_agent_by_name() -> None:
    agent = (Output(name="a"), Output(name="b"))
    step = (Output(name="b", pattern="x"), Output(name="c"))
    assert [(each.name, each.pattern) for each in merged(agent, step)] == [
        ("a", None),
        ("b", "x"),
        ("c", None),
    ]
