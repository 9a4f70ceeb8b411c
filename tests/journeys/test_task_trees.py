"""Lists and trees of tasks over HTTP."""

from typing import Any

from penstock import ToolContext, tool
from penstock.core.json_values.schema import Schema
from penstock.models.scripted import ScriptedModel
from penstock.server.schemas import COMPONENTS
from penstock.server.task_schemas import TASKS
from tests.kit.children import script
from tests.kit.server import served


@tool(effect="none", direct_call=True)
async def plan(ctx: ToolContext) -> Any:
    """Plan."""
    return await ctx.gather(await ctx.spawn("Find the apples", key="a"))


def problems(name: str, body: Any) -> Any:
    schemas = {**COMPONENTS, **TASKS}
    text = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    return Schema(text).problems(body)


async def test_tasks_are_listed_with_filters_and_shown_as_a_tree() -> None:
    async with served(model=ScriptedModel(script()), tools=[plan]) as server:
        root = (await server.say("Go")).headers["x-task-id"]
        get = server.client.get
        whole = (await get("/api/tasks")).json()
        tree = (await get(f"/api/tasks/{root}/tree")).json()
        queries = {
            "parent=none": [root],
            "kind=child": [tree["children"][0]["id"]],
            "kind=chat": [root],
            f"parent={root}": [tree["children"][0]["id"]],
            "status=failed&status=running": [],
            "status=failed&status=succeeded&kind=chat": [root],
            "until=2001-01-01T00:00:00Z": [],
            "since=2001-01-01T00:00:00&kind=chat": [root],
            "agent=nobody": [],
        }
        found = {
            query: [each["id"] for each in (await get(f"/api/tasks?{query}")).json()["tasks"]]
            for query in queries
        }
        wrong = [
            (await get(f"/api/tasks{query}")).status_code
            for query in ("?status=nope", "?kind=nope", f"/{root}/tree?depth=9", "/task_9/tree")
        ]
    assert found == queries
    assert wrong == [400, 400, 400, 404]
    assert whole["meta"]["total"] == 2
    assert problems("TaskList", whole) == problems("TaskTree", tree) == []
    (child,) = tree["children"]
    assert (child["key"], child["parentId"], child["rootId"]) == ("a", root, root)
    assert (tree["task"]["usage"]["modelCalls"], tree["task"]["totalUsage"]["modelCalls"]) == (2, 3)
