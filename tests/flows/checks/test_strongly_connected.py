"""Which parts of a graph lead to each other."""

import pytest

from penstock.flows.checks.strongly_connected import Graph, components


@pytest.mark.parametrize(
    ("graph", "wanted"),
    [
        ([], []),
        ([[]], [{0}]),
        ([[0]], [{0}]),
        ([[1], [2], []], [{2}, {1}, {0}]),
        ([[1], [2], [0]], [{0, 1, 2}]),
        ([[1], [0, 2], [3], [2]], [{2, 3}, {0, 1}]),
        ([[2], [0], [1, 3], []], [{3}, {0, 1, 2}]),
        ([[], [0], [1, 0], [3, 2]], [{0}, {1}, {2}, {3}]),
    ],
)
def test_what_a_component_leads_to_comes_before_it(graph: Graph, wanted: list[set[int]]) -> None:
    assert [set(each) for each in components(graph)] == wanted


def test_a_long_way_is_no_deep_one() -> None:
    count = 20_000
    ring = [[(n + 1) % count] for n in range(count)]
    assert [len(each) for each in components(ring)] == [count]
