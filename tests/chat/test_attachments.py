"""What tools attach stands with the answer: on the stream, and in the history."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.builtins.media import TOOLS
from penstock.chat.attachments import Attachments
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, StoredFile
from penstock.core.ids import BlobId
from penstock.models.scripted import ScriptedModel, call, say
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.server import CHAT, frames, served

FILE = StoredFile(blob_id=BlobId("ab"), mime_type="text/plain", size=3, is_image=False, name="a")


OPEN = [replace(each, spec=replace(each.spec, direct_call=True)) for each in TOOLS]
"""Open to every tool: here no skill grants them."""


@tool(effect="write")
async def report(ctx: ToolContext) -> list[Any]:
    """Attach a report, and once more."""
    given = {"base64_data": "YWJj", "media_type": "text/plain", "filename": "a.txt"}
    kept = await ctx.call("media_push_base64", given)
    media_id = {"media_id": kept.output["media_id"]}
    sent = [await ctx.call("send_media_attachment", media_id) for _ in range(2)]
    return [each.output for each in sent]


async def test_a_tool_below_a_tool_attaches_to_the_answer() -> None:
    """Wider §8: "called by a model or by a script below it"; "each media id once"."""
    model = ScriptedModel({"Go": [call("report"), say("Here it is.")], "More": [say("No.")]})
    async with served(model=model, tools=[report, *OPEN]) as server:
        streamed = [frame for _, frame in frames((await server.stream("Go")).text)]
        complete = streamed[-1] if streamed[-1]["type"] == "message_complete" else streamed[-2]
        (attached,) = complete["attachments"]
        assert (attached["name"], attached["mimeType"], attached["bytes"]) == (
            *("a.txt", "text/plain"),
            3,
        )
        assert attached["mediaId"].startswith("media_")
        content = await server.client.get(attached["url"])
        assert content.content == b"abc"
        query = {"conversationId": complete["conversationId"]}
        answer = (await server.client.get(CHAT, params=query)).json()["messages"][-1]
        (kept,) = answer["metadata"]["attachments"]
        assert {**kept, "url": ""} == {**attached, "url": ""}
        again = [frame for _, frame in frames((await server.stream("More", **query)).text)]
        assert not any("attachments" in each for each in again)


OUTPUT = {"send_as_attachment": True, "media_id": "m"}


@pytest.mark.parametrize(
    ("settled", "count"),
    [
        ({"envelope": Envelope.success(OUTPUT), "files": (FILE,)}, 1),
        ({"envelope": Envelope.success({"send_as_attachment": False, "media_id": "m"})}, 0),
        ({"envelope": Envelope.success(OUTPUT), "files": (FILE,), "tool_id": "mine"}, 0),
        ({"envelope": Envelope.success("text"), "files": (FILE,)}, 0),
        ({"envelope": Envelope.success(None)}, 0),
    ],
)
def test_only_what_was_attached_is_attached(settled: dict[str, Any], count: int) -> None:
    attachments = Attachments()
    for _ in range(2):
        attachments.add(CallSettled(**{"tool_id": "send_media_attachment", **settled}))
    assert len(attachments.parts(lambda blob_id: f"/{blob_id}")) == count


def test_an_answer_shows_no_more_than_twenty() -> None:
    attachments = Attachments()
    for number in range(25):
        output = {"send_as_attachment": True, "media_id": f"m{number}"}
        settled = CallSettled(
            tool_id="send_media_attachment", envelope=Envelope.success(output), files=(FILE,)
        )
        attachments.add(settled)
    assert len(attachments.parts(lambda _: "")) == 20
