"""A flow as the checks see it."""

from penstock.flows.checks.view import MOST_COMPARED, FlowView
from tests.flows.checks.around import SEED, beside
from tests.flows.texts import TOP, read
from tests.kit.worked import SUITES, W10


def test_ids_that_two_flows_bring_are_nobodys() -> None:
    """`STEP`: flat, only if no step of the parent and no other flow-ref of it has that id."""
    view = FlowView(read(W10), beside(SEED, SUITES))
    assert view.brought == {"look": "web"}
    assert (view.source("look"), view.source("sum"), view.source("unit")) == ("web", None, "unit")
    assert not view.is_open


def test_every_template_is_known_with_its_place() -> None:
    steps = "- id: a\n  agent: scout\n  task: t\n  inputs:\n    x: '${{result.b}}'\n"
    view = FlowView(read(f"{steps}- {{id: b, question: q, branches: {{y: a}}}}\n"), SEED)
    assert [(each.step.step_id, each.field) for each in view.written] == [
        ("a", "task"),
        ("a", "inputs"),
        ("b", "question"),
    ]
    assert [each.is_input for each in view.written] == [False, True, False]
    assert list(view.reads["a"]) == ["b"]


def test_what_does_not_hold_is_left_out_of_the_ways() -> None:
    steps = "- {id: a, agent: s, blockedBy: [a, b, z]}\n- {id: b, agent: s, blockedBy: [a]}\n"
    ways = FlowView(read(steps), SEED).ways
    assert (ways.waits("b", "a"), ways.waits("a", "b")) == (True, False)


def test_a_flow_in_which_nothing_fits_is_not_helped_for_ever() -> None:
    view = FlowView(read("- {id: a, agent: s}\n"), SEED)
    names = [f"name{n}" for n in range(MOST_COMPARED)]
    assert view.near("name", names) == "name0"
    assert view.near("name", ["name0"]) is not None
    assert view.near("name", ["name0"]) is None


def test_the_sign_of_a_block_is_looked_for_in_the_text() -> None:
    text = f"{TOP}- id: a\n  agent: s\n  task: |\n    one\n    two ${{{{x}}}}\n"
    view = FlowView(read(text.removeprefix(TOP)), SEED)
    (written,) = view.written
    place = view.place(written, written.template.broken[0])
    assert (place.line, place.column) == (8, 9)
