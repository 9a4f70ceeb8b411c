"""Where something stands that is known by its id alone."""

from penstock.agents.agent import Agent
from penstock.agents.settings import ChatSettings
from penstock.core.ids import ArtifactId, LogId, MessageId, ProfileId
from penstock.core.limits import Limits
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.lookup import Spoken
from tests.kit.server import served
from tests.kit.tools import Act, echo

LOCAL = ProfileId("local")
SMALL = Agent("assistant", settings=ChatSettings(result_max_chars=500))


async def test_a_message_is_found_by_both_its_ends() -> None:
    async with served() as server:
        both = (await server.say("Hi")).json()
        await server.say("Another")
        place = Spoken(
            LogId(both["userMessage"]["conversationId"]),
            both["userMessage"]["metadata"]["taskId"],
        )
        lookup = server.archive.lookup
        for message in both.values():
            found = await lookup.find_message(MessageId(message["id"]), "assistant", LOCAL)
            assert found == place


async def test_a_message_of_others_is_not_found() -> None:
    async with served() as server:
        message = (await server.say("Hi")).json()["userMessage"]["id"]
        find = server.archive.lookup.find_message
        assert await find(message, "assistant", ProfileId("bob")) is None
        assert await find(message, "other", LOCAL) is None
        assert await find(message, "assistant", None) is not None
        for name in ("msg_none", "%", "", '"'):
            assert await find(MessageId(name), "assistant", LOCAL) is None


async def test_a_message_that_stands_in_the_blob_store_is_found() -> None:
    async with served(limits=Limits(body_bytes=200)) as server:
        long = (await server.say("x" * 500)).json()
        find = server.archive.lookup.find_message
        assert await find(MessageId(long["userMessage"]["id"]), "assistant", LOCAL) is not None


async def test_an_artifact_is_found_small_or_large() -> None:
    model = ScriptedModel([call("echo", text="y" * 3000), say("Long.")])
    for limits in (Limits(), Limits(body_bytes=300)):
        async with served(
            model=model, tools=[Act("echo", echo)], agents=[SMALL], limits=limits
        ) as server:
            model = ScriptedModel([call("echo", text="y" * 3000), say("Long.")])
            answer = (await server.say("Go")).json()["assistantMessage"]
            artifact = ArtifactId(answer["toolResults"][0]["artifactId"])
            kept = await server.archive.lookup.find_artifact(artifact, LOCAL)
            assert kept is not None
            assert kept.tool_id == "echo"
            assert await server.archive.lookup.find_artifact(artifact, ProfileId("bob")) is None
