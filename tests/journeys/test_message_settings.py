"""Settings of requests that a message brings over HTTP, those that are refused included.

library.md 8.3. Those of a program are in tests/chat/python/test_conversations.py.
"""

import re
from typing import Any

import pytest

from penstock import Agent, Profile
from penstock.models.scripted import ScriptedModel, say
from penstock.models.settings import ModelSettings
from penstock.server.routes.chat import SETTINGS
from penstock.testing.runtime import memory_runtime
from tests.kit.project import ProjectFolder
from tests.kit.server import CHAT, served


async def test_settings_of_requests_reach_the_model() -> None:
    model = ScriptedModel([say("Hello."), say("Again.")])
    settings = {"temperature": 0.5, "stop": ["END"], "thinking": None, "extra": {"user": "ann"}}
    async with served(model=model) as server:
        first = await server.say("Hi", modelSettings=settings)
        (message,) = [first.json()["userMessage"]["id"]]
        answer = first.json()["assistantMessage"]["id"]
        again = await server.client.post(
            f"{CHAT}/messages/{answer}/regenerate", json={"modelSettings": {"seed": 7}}
        )
        assert again.json()["userMessage"]["id"] == message
    one, two = model.requests
    assert (one.temperature, one.stop, one.extra) == (0.5, ("END",), {"user": "ann"})
    assert (two.temperature, two.seed) == (None, 7)


@pytest.mark.parametrize(
    ("settings", "field", "issue"),
    [
        ({"temperature": 3}, "/temperature", "3 is greater than the maximum of 2"),
        ({"temperature": "hot"}, "/temperature", '"hot" is not of types "null", "number"'),
        ({"max_tokens": 0}, "/max_tokens", "0 is less than the minimum of 1"),
        ({"thinking": "hard"}, "/thinking", '"hard" is not one of "off", "minimal"'),
        ({"stop": ["x"] * 17}, "/stop", "has more than 16 items"),
        ({"tool_choice": ""}, "/tool_choice", '"" is shorter than 1 character'),
        ({"temprature": 1}, "", "Additional properties are not allowed ('temprature' was"),
        ([], "", '[] is not of types "null", "object"'),
    ],
)
async def test_settings_of_requests_that_do_not_exist_are_refused(
    settings: Any, field: str, issue: str
) -> None:
    async with served() as server:
        refused = await server.say("Hi", modelSettings=settings)
    (problem,) = refused.json()["error"]["details"]
    assert (refused.status_code, problem["field"]) == (422, f"/modelSettings{field}")
    assert issue in problem["issue"]


def test_the_form_of_settings_has_each_of_them() -> None:
    assert {*SETTINGS["properties"]} == {*ModelSettings.__struct_fields__}


@pytest.mark.parametrize(
    ("permissions", "settings", "status"),
    [
        (["chat"], {"extra": {"model": "dearer", "messages": []}}, 403),
        (["chat"], {"temperature": 0.5, "extra": {}}, 200),
        (["chat", "admin"], {"extra": {"service_tier": "flex"}}, 200),
    ],
)
async def test_only_an_admin_adds_members_to_the_body_of_a_request(
    permissions: list[str], settings: dict[str, Any], status: int
) -> None:
    """They can replace the model, the instructions and the messages."""
    model = ScriptedModel(lambda _: say("Hi."))
    async with served(model=model) as server:
        key = await server.database_parts.keys.create("ann", permissions=permissions)
        answer = await server.client.post(
            CHAT,
            json={"content": "Hi", "modelSettings": settings},
            headers={"authorization": f"Bearer {key}"},
        )
    assert (answer.status_code, len(model.requests)) == (status, int(status == 200))


async def test_a_request_names_its_person_by_an_id_that_tells_nothing(
    project: ProjectFolder,
) -> None:
    """Equal in all requests of a profile, also after a restart; other in another project."""
    ann, bob = Profile.named("ann@example.com"), Profile.named("bob@example.com")
    model = ScriptedModel([say("Hello.")] * 6)
    agents = [Agent("assistant", model=model)]
    async with project.opened(agents=agents) as runtime:
        for profile in (ann, bob, None):
            await runtime.chat("Hi", profile=profile)
    async with project.opened(agents=agents) as runtime:
        await runtime.chat("Hi", profile=ann)
    async with memory_runtime(agents=agents) as runtime:
        await runtime.chat("Hi", profile=ann)
        await runtime.chat("Hi")
    first, second, local, again, elsewhere, unnamed = (each.user for each in model.requests)
    assert first
    assert first == again
    assert len({first, second, elsewhere}) == 3
    assert (local, unnamed) == (None, None)
    assert re.fullmatch(r"[0-9a-f]{32}", first)
