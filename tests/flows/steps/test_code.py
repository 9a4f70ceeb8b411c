"""The kinds `code` and `code-decision`: their modules, and runs without a sandbox."""

import pytest
from msgspec.structs import replace

from penstock.flows.checks.context import CheckContext, CodeFault
from penstock.flows.steps.code import NO_SANDBOX
from penstock.models.scripted import ScriptedModel
from tests.flows.checks.findings import codes_in, found_in
from tests.kit.flows import by_task, run_flow

FLAT = CheckContext(file="flows/dom/apply.yaml", command="dom:apply")
FOLDER = CheckContext(file="flows/dom/apply/flow.yaml", command="dom:apply")


@pytest.mark.parametrize(
    ("around", "step", "expected"),
    [
        (
            FLAT,
            "{id: c, type: code}",
            (
                '4 warning handler-missing: no handler for step "c": expected '
                "flows/dom/handlers/apply/c.ts; penstock flow generate dom:apply"
            ),
        ),
        (
            FOLDER,
            "{id: c, type: code}",
            (
                '4 warning handler-missing: no handler for step "c": expected '
                "flows/dom/apply/c.ts; penstock flow generate dom:apply"
            ),
        ),
        (
            FLAT,
            "{id: c, type: code,\n target: x.mts}",
            (
                '5 warning handler-missing: no handler for step "c": expected '
                "flows/dom/x.mts; penstock flow generate dom:apply"
            ),
        ),
        (
            FLAT,
            "{id: c, type: code,\n target: ../../../x.mts}",
            (
                '5 warning handler-missing: no handler for step "c": expected '
                "../../../x.mts; name a file of the project: this path leaves it"
            ),
        ),
        (
            FLAT,
            "{id: c, type: code-decision, branches: {x: c, y: c}, max_iterations: 2}",
            (
                '4 warning handler-missing: no handler for step "c": expected '
                "flows/dom/handlers/apply/c.ts; penstock flow generate dom:apply"
            ),
        ),
        (CheckContext(), "{id: c, type: code}", None),
    ],
)
def test_a_code_step_without_a_module_is_reported(
    around: CheckContext, step: str, expected: str | None
) -> None:
    assert found_in(f"- {step}\n", around) == ([] if expected is None else [expected])


def test_a_module_that_cannot_run_is_an_error() -> None:
    fault = CodeFault(line=3, column=7, problem="no export default or run")
    around = replace(FOLDER, has_file=lambda _: True, code_fault=lambda _: fault)
    assert found_in("- {id: c, type: code}\n", around) == [
        "4 error handler-broken: flows/dom/apply/c.mts:3:7: no export default or run"
    ]
    assert codes_in("- {id: c, type: code}\n", replace(FOLDER, has_file=lambda _: True)) == []


async def test_without_a_sandbox_a_code_step_fails_with_the_reason() -> None:
    envelope = await run_flow("  - {id: count, type: code}", ScriptedModel(by_task({})))
    assert envelope.output["results"]["count"]["summary"] == NO_SANDBOX
