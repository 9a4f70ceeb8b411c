"""A conversation as a plain page."""

from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.pages.transcript import AT_ONCE
from penstock.testing.clock import FakeClock
from tests.kit.server import CHAT, served
from tests.kit.tools import Act, echo

EVIL = '<script>alert("x")</script>'


async def test_a_transcript_is_plain_text_whatever_was_said() -> None:
    """Spec: "a plain transcript, made on the server, no script, everything escaped"."""
    model = ScriptedModel([call("echo", text="t"), say(EVIL)])
    async with served(model=model, tools=[Act("echo", echo)]) as server:
        said = await server.say(f"Hi {EVIL}")
        page = await server.client.get(f"/c/{said.headers['x-conversation-id']}")
    assert page.status_code == 200
    assert "script" not in page.text.replace("&lt;script&gt;", "").replace("&lt;/script&gt;", "")
    assert page.text.count("<article>") == 2
    assert "called echo" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"


async def test_a_transcript_leads_to_the_chat() -> None:
    async with served() as server:
        name = (await server.say("Hi")).headers["x-conversation-id"]
        assert f'href="../#assistant/{name}"' in (await server.client.get(f"/c/{name}")).text


async def test_a_long_transcript_has_pages() -> None:
    async with served() as server:
        name = (await server.say("/call")).headers["x-conversation-id"]
        for _ in range(AT_ONCE // 2):
            await server.say("/call", conversationId=name)
        newest = (await server.client.get(f"/c/{name}")).text
        older = newest.partition(f'href="../c/{name}?')[2].partition('"')[0]
        oldest = (await server.client.get(f"/c/{name}?{older}")).text
    assert (newest.count("<article>"), oldest.count("<article>")) == (AT_ONCE, 2)
    assert "Older messages" not in oldest


async def test_who_is_not_signed_in_is_led_to_where_that_is_done() -> None:
    async with served(clock=FakeClock()) as server:
        key = await server.database_parts.keys.create("ann")
        bob = {"authorization": f"Bearer {await server.database_parts.keys.create('bob')}"}
        said = await server.client.post(
            CHAT, json={"content": "Hi"}, headers={"authorization": f"Bearer {key}"}
        )
        path = f"/c/{said.headers['x-conversation-id']}"
        led = await server.client.get(path)
        others = await server.client.get(path, headers=bob)
        nothing = await server.client.get("/c/conv_x", headers=bob)
    assert (led.status_code, led.headers["location"]) == (303, "../login")
    assert (others.status_code, nothing.status_code) == (404, 404)
