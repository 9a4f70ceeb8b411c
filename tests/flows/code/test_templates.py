"""The first texts for modules: where they are to stand, and that they are modules."""

from typing import Any

import pytest

from penstock.core.events.flow_events import Output, ValueType
from penstock.flows.checks.context import CheckContext
from penstock.flows.code.templates import drafts, missing_drafts
from penstock.flows.definition import Flow
from penstock.flows.project.modules import ModuleLoader, RunFiles
from penstock.flows.steps.code import Code, CodeDecision

DECIDE = CodeDecision(
    step_id="route",
    inputs={"text": "say ${{task}}", "list": "${{result.a.list}}", "a-b": ""},
    outputs=(
        Output(name="n", value_type=ValueType.NUMBER, description="how many */ of\nthem"),
        Output(name="code", pattern="^a", value_type=ValueType.ARRAY),
        Output(name="any"),
    ),
    branches={"a": "x", 'b "c"': "y"},
)
WANTED = (
    """
interface Input {
  text: string;
  list: unknown;
  "a-b": string;
}
""",
    r"""
interface Result {
  /** how many * / of them */
  n: number;
  code: string;
  any: unknown;
  branch: "a" | "b \"c\"";
}
""",
)


def drafted(file: str = "flows/dom/demo.yaml", **step: Any) -> dict[str, str]:
    steps = (Code(step_id="count", **step),)
    around = CheckContext(file=file, command="dom:demo")
    return drafts(Flow(name="demo", description="d", steps=steps), around)


@pytest.mark.parametrize(
    ("file", "step", "files"),
    [
        ("flows/dom/demo.yaml", {}, ["flows/dom/handlers/demo/count.ts.default"]),
        ("flows/dom/flow.yaml", {}, ["flows/dom/count.ts.default"]),
        ("flows/dom/demo.yaml", {"target": "../lib/a.mjs"}, ["flows/lib/a.mjs.default"]),
        ("flows/demo.yaml", {"target": "../../../a.ts"}, []),
    ],
)
def test_a_draft_is_beside_the_place_of_its_module(
    file: str, step: dict[str, Any], files: list[str]
) -> None:
    """`penstock flow generate` writes `ID.ts.default`."""
    assert list(drafted(file, **step)) == files


def test_a_draft_declares_its_inputs_and_its_result() -> None:
    flow = Flow(name="demo", description="d", steps=(DECIDE,))
    (text,) = drafts(flow, CheckContext(file="flows/demo.yaml", command="demo")).values()
    assert [each for each in WANTED if each not in text] == []


@pytest.mark.parametrize("target", [None, "a.mts", "a.js"])
def test_a_draft_is_a_module(modules: ModuleLoader, target: str | None) -> None:
    ((file, text),) = drafted(target=target, inputs={"a": "b"}).items()
    path = file.removesuffix(".default")
    loaded = modules.load(path, RunFiles({path: text}, path.rpartition("/")[0]))
    assert loaded.problems == ()
    assert ("interface" in text) is (target != "a.js")


@pytest.mark.parametrize("module", ["flows/handlers/demo/a.ts", ".pi/flows/handlers/demo/a.mjs"])
def test_a_step_with_a_module_needs_no_draft(module: str) -> None:
    steps = (Code(step_id="a"), Code(step_id="b"))
    flow = Flow(name="demo", description="d", steps=steps)
    around = CheckContext(
        file="flows/demo.yaml", command="demo", has_file=lambda file: file == module
    )
    assert list(missing_drafts(flow, around)) == ["flows/handlers/demo/b.ts.default"]
