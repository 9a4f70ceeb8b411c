"""The calls of `flo.task` about children refuse what they cannot take."""

from typing import Any

import pytest

from tests.kit.hosts import asking

CHILD = {"worker_kind": "matcher", "title": "t", "objective": "o", "input": 1}
SPAWN = {"key": "a", "title": "t", "objective": "o", "input": 1}
WAIT: dict[str, Any] = {"key": "a", "dependencies": [{"task_id": "task_1", "alias": "x"}]}
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("spawnChildren", {"children": []}, "at least one"),
    ("spawnChildren", {"children": 3}, "must be a list"),
    ("spawnChildren", {"children": [1]}, "children[0] must be an object"),
    ("spawnChildren", {"children": [CHILD, {**CHILD, "title": 1}]}, "children[1]: title"),
    ("spawnChildren", {"children": [{**CHILD, "worker_kind": "cook"}]}, "extractor"),
    ("spawnChildren", {"children": [{**CHILD, "selected_skill_ids": [1]}]}, "list of texts"),
    ("waitForBatch", {}, "batch_id"),
    ("spawn", {**SPAWN, "key": ""}, "key must be a text of 1 to 128"),
    ("spawn", {**SPAWN, "max_turns": 51}, "max_turns must be a number from 1 to 50"),
    ("spawn", {**SPAWN, "input_schema": {"type": "string"}}, "input is not valid"),
    ("spawn", {**SPAWN, "input_schema": {"type": 3}}, "not a JSON Schema"),
    (
        "spawn",
        {**SPAWN, "input": {"n": "x"}, "input_schema": {"properties": {"n": {"type": "integer"}}}},
        "/n",
    ),
    ("spawn", {**SPAWN, "output_schema": 3}, "a schema must be an object"),
    ("spawn", {**SPAWN, "dependency_condition": "some"}, "must be one of all, any"),
    ("spawn", {**SPAWN, "failure_policy": "hope"}, "require_success"),
    ("waitForDependencies", {"key": "a"}, "at least one task"),
    ("waitForDependencies", {**WAIT, "dependencies": [1]}, "dependencies[0]"),
    ("waitForDependencies", {**WAIT, "dependencies": 2 * WAIT["dependencies"]}, "alias"),
    ("waitForDependencies", {**WAIT, "dependencies": 65 * WAIT["dependencies"]}, "at most 64"),
    ("cancel", {}, "task_id"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), WRONG)
async def test_a_wrong_argument_is_a_type_error(
    name: str, arguments: dict[str, Any], message: str
) -> None:
    host = await asking()
    refused = (await host.ask(f"task.{name}", arguments)).refusal
    assert refused is not None
    assert refused.name == "TypeError"
    assert message in refused.detail.message


async def test_a_runtime_without_child_tasks_says_so() -> None:
    host = await asking()
    assert await host.refusal("task.spawn", SPAWN) == "NOT_CONFIGURED"
