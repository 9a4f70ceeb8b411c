"""Parsed steps: their names in messages, and the places of findings."""

from penstock.core.diagnostics import Severity
from penstock.flows.parsed_flow import source_lines
from tests.flows.texts import read

STEPS = "  - {id: look, agent: scout}\n  - {agent: scout}\n"


def test_a_finding_points_at_the_id_of_its_step_unless_it_names_a_place() -> None:
    parsed = read(STEPS).steps[0]
    error, warning = parsed.error("broken", "m"), parsed.warning("weak", "m", parsed.node.place)
    assert (error.severity, warning.severity) == (Severity.ERROR, Severity.WARNING)
    assert (error.line, error.column) == (parsed.place.line, parsed.place.column)
    assert (warning.line, warning.column) == (parsed.node.place.line, parsed.node.place.column)


def test_a_step_without_an_id_is_named_by_its_number() -> None:
    named, unnamed = read(STEPS).steps
    assert (named.label, named.is_named) == ('step "look"', True)
    assert (unnamed.label, unnamed.is_named) == ("step 2", False)
    assert (named.node.at("agent").name, unnamed.node.at("agent").name) == (
        "steps.look.agent",
        "steps[1].agent",
    )


def test_lines_are_counted_as_yaml_counts_them() -> None:
    assert source_lines("a\r\nb\u2028c\nd") == ["a", "b", "c", "d"]
    assert source_lines(b"\xef\xbb\xbfa\xff") == ["a\ufffd"]
