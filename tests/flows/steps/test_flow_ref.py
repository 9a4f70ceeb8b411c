"""The kind `flow-ref`: what is known of it before it runs."""

from penstock.flows.steps.flow_ref import FlowRef


def test_a_reference_reports_its_path_as_its_author_wrote_it() -> None:
    assert FlowRef(step_id="ref", path="${{input.which}}.yaml").path_written.startswith("${{")


def test_the_fields_of_its_result_are_known_only_in_a_run() -> None:
    assert FlowRef(step_id="ref", path="sub.yaml").result_fields(["why"]) is None
