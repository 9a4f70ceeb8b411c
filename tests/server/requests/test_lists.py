"""What lists take, and how they answer."""

import json

import pytest
from pydantic import ValidationError

from penstock.core.errors import InvalidRequest
from penstock.server.requests.lists import HistoryQuery, ListQuery, StreamQuery, page_of
from penstock.store.projections.projections import Page


def test_a_list_begins_at_its_beginning() -> None:
    assert ListQuery().page == Page(limit=50, offset=0)
    assert HistoryQuery().view == "chat"
    assert StreamQuery(conversationId="c").start == "start"


def test_a_list_is_sorted_as_it_was_asked_for() -> None:
    assert ListQuery().sorted_by(("name", "source")) == "name"
    assert ListQuery(sort="source").sorted_by(("name", "source")) == "source"
    assert ListQuery(order="asc").page.is_descending is False
    assert ListQuery(order="desc").page.is_descending is True


def test_what_a_list_is_not_sorted_by() -> None:
    """Another `sort` field than listed: 422."""
    with pytest.raises(InvalidRequest) as refused:
        ListQuery(sort="Name").sorted_by(("name", "source"))
    issue = "must be one of: name, source; found 'Name'"
    assert refused.value.problems == [{"field": "/sort", "issue": issue}]


@pytest.mark.parametrize(("limit", "offset"), [(1, 0), (200, 2**53)])
def test_a_list_goes_to_its_bounds(limit: int, offset: int) -> None:
    assert ListQuery(limit=limit, offset=offset).page == Page(limit=limit, offset=offset)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 201},
        {"offset": -1},
        {"offset": 2**53 + 1},
        {"search": "x" * 201},
        {"order": "up"},
    ],
)
def test_a_query_has_bounds(query: dict[str, int | str]) -> None:
    with pytest.raises(ValidationError):
        ListQuery.model_validate(query)


def test_a_page_stands_under_the_name_of_its_items() -> None:
    response = page_of("agents", [1], Page(limit=1, offset=2), 9)
    assert json.loads(bytes(response.body)) == {
        "agents": [1],
        "meta": {"total": 9, "limit": 1, "offset": 2},
    }
