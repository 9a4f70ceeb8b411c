"""What lists take, and how they answer."""

import json

import pytest
from pydantic import ValidationError

from penstock.server.lists import HistoryQuery, ListQuery, StreamQuery, page_of
from penstock.store.projections import Page


def test_a_list_begins_at_its_beginning() -> None:
    assert ListQuery().page == Page(limit=50, offset=0)
    assert HistoryQuery().view == "chat"
    assert StreamQuery(conversationId="c").start == "start"


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": 201}, {"offset": -1}, {"search": "x" * 201}]
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
