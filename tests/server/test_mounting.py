"""A runtime in other applications: FastAPI, Starlette, Django's way of composing ASGI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Annotated, Any

import httpx2
import pytest
from fastapi import Depends, FastAPI, Header, HTTPException
from starlette.applications import Starlette
from starlette.routing import Mount

import penstock
from penstock.core.errors import ConfigError, RuntimeMisuse
from penstock.core.profile import Profile
from penstock.models.scripted import ScriptedModel, say
from penstock.server.mounting import mount
from penstock.testing.runtime import memory_runtime

ASK = {"content": "Hello"}


def model() -> ScriptedModel:
    return ScriptedModel(lambda _: say("Hi."))


@asynccontextmanager
async def client_of(app: Any, lifespan: Any = None) -> AsyncIterator[httpx2.AsyncClient]:
    """Return a client of an application, within its lifespan."""
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        if lifespan is None:
            yield client
            return
        async with lifespan.router.lifespan_context(lifespan):
            yield client


async def test_a_runtime_is_an_application_of_its_own() -> None:
    async with memory_runtime(model=model()) as runtime, client_of(penstock.asgi(runtime)) as http:
        answer = await http.post("/api/agents/assistant/chat", json=ASK)
    assert answer.json()["assistantMessage"]["content"] == "Hi."


async def test_starlette_mounts_it_below_a_path() -> None:
    async with memory_runtime(model=model()) as runtime:
        app = Starlette(routes=[Mount("/desk", penstock.asgi(runtime))])
        async with client_of(app) as http:
            answer = await http.post("/desk/api/agents/assistant/chat", json=ASK)
    assert answer.status_code == 200


async def test_the_lifespan_of_the_application_opens_and_closes_it() -> None:
    opened: list[str] = []

    @asynccontextmanager
    async def own(app: FastAPI) -> AsyncIterator[None]:
        opened.append("own")
        yield
        opened.append("closed")

    app = FastAPI(lifespan=own)
    mount(app, penstock.open(":memory:", model=model()), "/agents")
    async with client_of(app, app) as http:
        answer = await http.post("/agents/api/agents/assistant/chat", json=ASK)
    assert answer.json()["assistantMessage"]["content"] == "Hi."
    assert opened == ["own", "closed"]


def profile_of(user: Annotated[str, Header()] = "") -> Profile:
    """Return the profile of a user that the application knows."""
    if not user:
        raise HTTPException(401, "who are you?")
    return Profile.named(user, "read", "chat")


async def test_a_dependency_of_the_application_decides_who_asks() -> None:
    app = FastAPI()
    async with memory_runtime(model=model()) as runtime:
        mount(app, runtime, "/agents", profile=Depends(profile_of))
        async with client_of(app) as http:
            path = "/agents/api/agents/assistant/chat"
            refused = await http.post(path, json=ASK)
            answer = await http.post(path, json=ASK, headers={"user": "ann"})
            conversation = answer.json()["assistantMessage"]["conversationId"]
            history = f"{path}?conversationId={conversation}"
            foreign = await http.get(history, headers={"user": "bob"})
            own = await http.get(history, headers={"user": "ann"})
            streamed = await http.post(path, json=ASK | {"stream": True}, headers={"user": "ann"})
            forbidden = await http.get("/agents/api/keys", headers={"user": "ann"})
    assert (refused.status_code, refused.json()) == (401, {"detail": "who are you?"})
    assert answer.json()["assistantMessage"]["content"] == "Hi."
    assert (foreign.status_code, own.status_code) == (404, 200)
    assert "message_complete" in streamed.text
    assert forbidden.status_code in {403, 404}


async def test_its_routes_are_in_the_document_of_the_application() -> None:
    app = FastAPI()

    @app.get("/own")
    def own() -> str:
        return "own"

    async with memory_runtime() as runtime:
        mount(app, runtime, "/agents", tags=["desk"])
        document = app.openapi()
        assert app.openapi() is document
    chat = document["paths"]["/agents/api/agents/{agent_id}/chat"]["post"]
    assert chat["tags"] == ["desk"]
    assert "/own" in document["paths"]
    assert "PenstockProblem" in document["components"]["schemas"]
    assert "#/components/schemas/Problem" not in str(document)


@pytest.mark.parametrize("path", ["agents", "/agents/", "/", ""])
def test_a_path_that_cannot_be_mounted_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="begins with a slash"):
        mount(FastAPI(), penstock.open(":memory:"), path)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((5, None, "/agents"), r"takes a FastAPI application, found 5; .* penstock.asgi\(runtime"),
        ((FastAPI(), 5, "/agents"), r"mount takes a runtime or penstock.open\(...\), found 5"),
        ((FastAPI(), nullcontext(), 5), "begins with a slash and ends without one: found 5"),
    ],
)
def test_what_cannot_be_mounted_is_refused(arguments: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        mount(*arguments)


def test_one_text_as_tags_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"tags= takes a list of names, found 'a': write \['a'\]"):
        mount(FastAPI(), penstock.open(":memory:"), "/agents", tags="a")


def test_what_asgi_cannot_serve_is_refused() -> None:
    wrong: Any = penstock.open
    with pytest.raises(
        ConfigError, match=r"asgi takes a runtime or penstock.open\(...\), found <fu"
    ):
        penstock.asgi(wrong)


def test_a_profile_that_is_no_dependency_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must be `Depends\(function\)`"):
        mount(FastAPI(), penstock.open(":memory:"), "/agents", profile=profile_of)


@pytest.mark.parametrize("returned", [None, "ann", {"profile_id": "ann"}])
async def test_a_dependency_that_returns_no_profile_grants_nothing(returned: object) -> None:
    app = FastAPI()
    async with memory_runtime(model=model()) as runtime:
        mount(app, runtime, "/agents", profile=Depends(lambda: returned))
        async with client_of(app) as http:
            with pytest.raises(RuntimeMisuse, match=r"must return a penstock\.Profile or raise"):
                await http.get("/agents/api/agents")
