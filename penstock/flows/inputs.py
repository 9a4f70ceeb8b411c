"""Typed inputs of a run: the values given, checked against the flow's declarations."""

from collections.abc import Mapping
from typing import Any

from penstock.core.diagnostics import did_you_mean
from penstock.core.json_values.schema import Problem
from penstock.flows.definition import Flow
from penstock.manifest.authored_kinds import fits
from penstock.manifest.fields import found


def run_inputs(flow: Flow, values_given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the inputs of a run with their defaults, and all that is wrong with them."""
    declared = {each.name: each for each in flow.inputs}
    problems = [
        Problem(f"/inputs/{name}", f"is no input of this flow.{did_you_mean(name, list(declared))}")
        for name in values_given
        if name not in declared
    ]
    values: dict[str, Any] = {}
    for name, each in declared.items():
        pointer = f"/inputs/{name}"
        if name not in values_given:
            if each.is_required:
                problems.append(Problem(pointer, f"is required: {each.value_type}"))
            elif each.default is not None:
                values[name] = each.default
        elif fits(values_given[name], each.value_type):
            values[name] = values_given[name]
        else:
            message = f"must be {each.value_type}, found {found(values_given[name])}"
            problems.append(Problem(pointer, message))
    return values, problems
