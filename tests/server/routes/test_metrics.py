"""Metrics per tool over HTTP."""

from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.server import served
from tests.kit.tools import Act, calling

METRICS = "/api/agents/assistant/tools/metrics"


async def test_a_known_run_is_counted() -> None:
    """Metrics after a known run: frequency, success and failure, times, tokens."""
    model = ScriptedModel([call("outer", a=1) + call("nope"), say("Done.")])
    tools = [Act("outer", calling("inner")), Act("inner", direct_call=True)]
    async with served(model=model, tools=tools) as server:
        await server.say("Go")
        found = {
            each["tool"]: each for each in (await server.client.get(METRICS)).json()["metrics"]
        }
        assert (found["outer"]["calls"], found["inner"]["calls"]) == (1, 1)
        assert found["nope"]["errors"] == {"TOOL_NOT_FOUND": 1}
        assert found["outer"]["successRate"] == 1
        assert found["outer"]["tokens"]["arguments"] == 2
        assert found["inner"]["tokens"]["definitions"] > 0
        one = (await server.client.get(METRICS, params={"tool": "outer"})).json()["metrics"]
        assert [each["tool"] for each in one] == ["outer"]


async def test_notes_and_state_of_a_tool_are_no_tools() -> None:
    @tool(effect="read")
    async def noting(ctx: ToolContext) -> str:
        """Keep a note of what was seen."""
        ctx.emit("seen", "A note.")
        await ctx.state.put("seen", 1)
        return str(await ctx.state.get("seen"))

    model = ScriptedModel([call("noting"), say("Done.")])
    async with served(model=model, tools=[noting]) as server:
        await server.say("Go")
        found = (await server.client.get(METRICS)).json()["metrics"]
    assert [(each["tool"], each["calls"], each["succeeded"]) for each in found] == [
        ("noting", 1, 1)
    ]


async def test_only_what_happened_in_between_counts() -> None:
    clock = FakeClock()
    model = ScriptedModel({"": [call("add"), say("Done.")]})
    async with served(model=model, tools=[Act("add")], clock=clock) as server:
        await server.say("Go")
        assert (await server.client.get(METRICS)).json()["metrics"]
        clock.advance(8 * 86_400)
        later = (await server.client.get(METRICS)).json()
        assert later["metrics"] == []
        assert later["meta"]["from"] < later["meta"]["to"]
        ever = await server.client.get(METRICS, params={"from": "2000-01-01T00:00:00Z"})
        assert ever.json()["metrics"]
        for odd in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"):
            assert (await server.client.get(METRICS, params={"to": odd})).status_code == 200
        bad = await server.client.get(METRICS, params={"from": "yesterday"})
        assert bad.json()["error"]["code"] == "BAD_REQUEST"
        assert (await server.client.get("/api/agents/nobody/tools/metrics")).status_code == 404


async def test_usually_the_last_week_counts_to_the_second() -> None:
    clock = FakeClock()
    model = ScriptedModel({"": [call("add"), say("Done.")]})
    async with served(model=model, tools=[Act("add")], clock=clock) as server:
        await server.say("Go")
        clock.advance(7 * 86_400 - 1)
        assert (await server.client.get(METRICS)).json()["metrics"]
        clock.advance(2)
        assert (await server.client.get(METRICS)).json()["metrics"] == []
