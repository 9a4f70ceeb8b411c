"""Paths of the modules of code steps."""

import pytest
from msgspec.structs import replace

from penstock.flows.checks.context import CheckContext
from penstock.flows.checks.modules import module_of
from penstock.flows.definition import Code

FLAT = CheckContext(file="flows/dom/apply.yaml", command="dom:apply")
FOLDER = CheckContext(file="flows/dom/apply/flow.yaml", command="dom:apply")


@pytest.mark.parametrize(
    ("around", "target", "files", "wanted"),
    [
        (FLAT, None, ["flows/dom/handlers/apply/c.mts"], "flows/dom/handlers/apply/c.mts"),
        (FLAT, None, [".pi/flows/handlers/dom/apply/c.js"], ".pi/flows/handlers/dom/apply/c.js"),
        (
            FLAT,
            None,
            ["flows/dom/handlers/apply/c.js", "flows/dom/handlers/apply/c.ts"],
            "flows/dom/handlers/apply/c.ts",
        ),
        (FLAT, None, ["flows/dom/apply/c.ts"], None),
        (FOLDER, None, ["flows/dom/apply/c.mjs"], "flows/dom/apply/c.mjs"),
        (FOLDER, None, ["flows/dom/apply/handlers/flow/c.mjs"], None),
        (FLAT, "x.mts", ["flows/dom/x.mts"], "flows/dom/x.mts"),
        (FLAT, "lib/x.mts", ["lib/x.mts"], "lib/x.mts"),
        (FLAT, "../../lib/x.mts", ["lib/x.mts"], "lib/x.mts"),
        (FLAT, "../../../x.mts", ["../x.mts"], None),
        (FLAT, "/x.mts", ["/x.mts", "x.mts"], None),
        (FLAT, "x", ["flows/dom/x.mts"], None),
    ],
)
def test_a_module_is_found_by_the_form_of_the_flow(
    around: CheckContext, target: str | None, files: list[str], wanted: str | None
) -> None:
    """7.9: `target`; directory form beside `flow.yaml`; flat form in `handlers/STEM`."""
    step = Code(step_id="c", target=target)
    assert module_of(step, replace(around, has_file=set(files).__contains__)) == wanted
