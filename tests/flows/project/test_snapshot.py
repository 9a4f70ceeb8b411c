"""What a run keeps of the flows that it refers to."""

from penstock.flows.project.library import FlowSource
from penstock.flows.project.snapshot import check_size, referred_flows, referred_texts
from penstock.testing.flows import MemoryFlows
from tests.flows.texts import TOP

LEAF = TOP + "- {id: a, agent: scout}\n"


def leading(*paths: str) -> str:
    """Return a flow that refers to others."""
    steps = [f'- {{id: r{number}, path: "{path}"}}\n' for number, path in enumerate(paths)]
    return TOP + "".join(steps)


TEXTS = {
    "flows/main.yaml": leading("dom/sub.yaml", "${{task}}.yaml", "dom/*.yaml", "../../x.yaml"),
    "flows/dom/sub.yaml": leading("leaf.yaml", "flows/main.yaml", "gone.yaml"),
    "flows/dom/leaf.yaml": LEAF,
    "flows/dom/other.yaml": LEAF,
    "flows/dom/handlers/sub/c.ts": "export default 1",
}
MAIN = MemoryFlows(TEXTS).find("main")


def test_a_flow_is_kept_with_all_that_literal_paths_lead_to() -> None:
    """`flow_started` holds the texts of sub-flows with literal paths; a cycle ends."""
    names = ["flows/main.yaml", "flows/dom/sub.yaml", "flows/dom/leaf.yaml"]
    assert list(referred_texts("flows/main.yaml", TEXTS.get)) == names
    assert referred_texts("gone.yaml", TEXTS.get) == {}


def test_what_is_written_meanwhile_changes_no_run() -> None:
    """A run keeps these texts to its end, whatever is written meanwhile."""
    now = MemoryFlows({**TEXTS, "flows/dom/sub.yaml": LEAF})
    for written, path in (("dom/sub.yaml", "dom/sub.yaml"), ("${{task}}", "dom/sub.yaml")):
        (found,) = referred_flows(now, MAIN, written, path) or ()
        assert (found.path, found.text) == ("flows/dom/sub.yaml", TEXTS["flows/dom/sub.yaml"])


def test_a_flow_inside_keeps_what_its_own_paths_lead_to() -> None:
    (found,) = referred_flows(MemoryFlows({}), MAIN, "dom/sub.yaml", "dom/sub.yaml") or ()
    assert set(found.texts) == set(TEXTS) - {"flows/dom/other.yaml"}
    (leaf,) = referred_flows(MemoryFlows({}), found, "leaf.yaml", "leaf.yaml") or ()
    assert set(leaf.texts) == {"flows/dom/leaf.yaml", "flows/dom/handlers/sub/c.ts"}


def test_a_literal_path_leads_to_the_flow_that_it_led_to_first() -> None:
    """A file that appears beside the flow does not take the place of the project's."""
    source = FlowSource(path="flows/a.yaml", texts={"flows/a.yaml": "", "flows/b.yaml": LEAF})
    now = MemoryFlows({"flows/flows/b.yaml": leading("x.yaml")})
    (found,) = referred_flows(now, source, "flows/b.yaml", "flows/b.yaml") or ()
    assert found.path == "flows/b.yaml"
    (found,) = referred_flows(now, source, "${{task}}", "flows/b.yaml") or ()
    assert found.path == "flows/flows/b.yaml"


def test_what_only_the_run_can_tell_is_read_as_it_is_then() -> None:
    found = referred_flows(MemoryFlows(TEXTS), MAIN, "dom/*.yaml", "dom/*.yaml") or ()
    assert [each.path.rpartition("/")[2] for each in found] == [
        "leaf.yaml",
        "other.yaml",
        "sub.yaml",
    ]
    assert referred_flows(MemoryFlows(TEXTS), MAIN, "../../x.yaml", "../../x.yaml") is None


def test_a_run_keeps_no_more_than_fits() -> None:
    names = [f"{number}.yaml" for number in range(40)]
    texts = {"main.yaml": leading(*names)} | dict.fromkeys(names, "x" * 1_000_000)
    found = referred_texts("main.yaml", texts.get)
    assert len(found) < len(texts) / 2
    (error,) = check_size(found, "main.yaml")
    assert error.code == "flows-too-large"
    assert check_size({"0.yaml": LEAF}, "0.yaml") == ()
