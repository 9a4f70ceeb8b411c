"""Where something stands that is known by its id alone."""

from penstock.agents.agent import Agent
from penstock.agents.settings import ChatSettings
from penstock.core.ids import ArtifactId, LogId, MessageId, ProfileId
from penstock.core.limits import Limits
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.lookup import Spoken
from tests.acting import Act, echo
from tests.serving import served

LOCAL = ProfileId("local")
SMALL = Agent("assistant", settings=ChatSettings(result_max_chars=500))


async def test_a_message_is_found_by_both_its_ends() -> None:
    async with served() as house:
        both = (await house.say("Hi")).json()
        await house.say("Another")
        place = Spoken(
            LogId(both["userMessage"]["conversationId"]),
            both["userMessage"]["metadata"]["taskId"],
        )
        lookup = house.archive.lookup
        for message in both.values():
            found = await lookup.find_message(MessageId(message["id"]), "assistant", LOCAL)
            assert found == place


async def test_a_message_of_others_is_not_found() -> None:
    async with served() as house:
        message = (await house.say("Hi")).json()["userMessage"]["id"]
        find = house.archive.lookup.find_message
        assert await find(message, "assistant", ProfileId("bob")) is None
        assert await find(message, "other", LOCAL) is None
        assert await find(message, "assistant", None) is not None
        for name in ("msg_none", "%", "", '"'):
            assert await find(MessageId(name), "assistant", LOCAL) is None


async def test_a_message_that_stands_in_the_blob_store_is_found() -> None:
    async with served(limits=Limits(body_bytes=200)) as house:
        long = (await house.say("x" * 500)).json()
        find = house.archive.lookup.find_message
        assert await find(MessageId(long["userMessage"]["id"]), "assistant", LOCAL) is not None


async def test_an_artifact_is_found_small_or_large() -> None:
    model = ScriptedModel([call("echo", text="y" * 3000), say("Long.")])
    for limits in (Limits(), Limits(body_bytes=300)):
        async with served(
            model=model, tools=[Act("echo", echo)], agents=[SMALL], limits=limits
        ) as house:
            model = ScriptedModel([call("echo", text="y" * 3000), say("Long.")])
            answer = (await house.say("Go")).json()["assistantMessage"]
            artifact = ArtifactId(answer["toolResults"][0]["artifactId"])
            kept = await house.archive.lookup.find_artifact(artifact, LOCAL)
            assert kept is not None
            assert kept.tool_id == "echo"
            assert await house.archive.lookup.find_artifact(artifact, ProfileId("bob")) is None
