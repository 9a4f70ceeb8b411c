"""`task.runSubagent` refuses what it cannot take."""

from typing import Any

import pytest

from tests.kit.hosts import asking

WORKER = {"worker_kind": "matcher", "title": "t", "objective": "o", "input": 1}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "worker_kind"),
    ({"worker_kind": "cook"}, "extractor"),
    ({"title": 1}, "title must be a text"),
    ({"title": "t" * 201}, "title must be a text of 1 to 200"),
    ({"objective": ""}, "objective"),
    ({"objective": "o" * 16_385}, "objective must be a text of 1 to 16384 bytes"),
    ({"input": "x" * 1_048_577}, "input must have at most 1048576 bytes"),
    ({"selected_skill_ids": [1]}, "list of texts"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
async def test_a_wrong_argument_is_a_type_error(wrong: dict[str, Any], message: str) -> None:
    host = await asking()
    refused = (await host.ask("task.runSubagent", WORKER | wrong if wrong else {})).refusal
    assert refused is not None
    assert refused.name == "TypeError"
    assert message in refused.detail.message


async def test_a_runtime_without_agents_says_so() -> None:
    host = await asking()
    assert await host.refusal("task.runSubagent", WORKER) == "NOT_CONFIGURED"
