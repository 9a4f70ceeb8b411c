"""Files of messages over HTTP and in programs: sent, read by the model, shown, erased."""

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from penstock import Agent, ChatSettings, Image
from penstock.agents.attachments.kinds import inspect
from penstock.chat.requests import NewMessage
from penstock.core.clock import Moment
from penstock.core.errors import InvalidRequest
from penstock.core.events.codec import to_wire
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.messages import ImagePart, TextPart, ToolMessage, UserMessage
from penstock.models.providers import ModelConfig
from penstock.models.scripted import SCRIPTED, ScriptedModel, call, say
from penstock.models.wires.anthropic import AnthropicModel
from penstock.store.references import LOOSE_SECONDS
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit import sample_files
from tests.kit.asking import ask
from tests.kit.model_server import Canned, FakeServer, anthropic_reply, block, fake_server
from tests.kit.questions import ask_color
from tests.kit.server import CHAT, InMemoryServer, served
from tests.kit.tools import Act

PNG = sample_files.image()
HELLO = block(0, "text", {"type": "text_delta", "text": "Hello"}, text="")


def seeing(*answers: Any) -> ScriptedModel:
    """Return a model that reads images."""
    model = ScriptedModel(list(answers) or {"": say("Red.")})
    model.card = replace(SCRIPTED, images=True)
    return model


async def uploaded(
    server: InMemoryServer, content: bytes = PNG, name: str = "a.png", key: str = ""
) -> httpx2.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    files = {"file": (name, content, "application/octet-stream")}
    return await server.client.post("/api/blobs", files=files, headers=headers)


async def test_an_upload_is_sent_read_and_shown() -> None:
    model = seeing()
    async with served(model=model) as server:
        upload = await uploaded(server)
        blob_id = upload.json()["blobId"]
        assert upload.status_code == 201
        assert upload.json() == {
            "blobId": blob_id,
            "mimeType": "image/png",
            "bytes": len(PNG),
            "name": "a.png",
            "width": 4,
            "height": 2,
        }
        answer = await server.say("What?", attachments=[{"blobId": blob_id}])
        (shown,) = answer.json()["userMessage"]["attachments"]
        assert {**upload.json(), "url": shown["url"]} == shown
        link = await server.client.get(shown["url"])
        assert (link.content, link.headers["content-type"]) == (PNG, "image/png")
        assert (await server.client.get(f"/api/blobs/{blob_id}")).content == PNG
        for view in ("chat", "full"):
            history = (await server.client.get(CHAT, params={"view": view})).json()["messages"]
            assert history[0]["attachments"][0]["blobId"] == blob_id
            assert "attachments" not in history[1]
    (message,) = model.requests[0].messages
    assert isinstance(message, UserMessage)
    image = ImagePart(content=PNG, mime_type="image/png", width=4, height=2)
    assert message.parts == (image, TextPart("What?"))


async def test_bytes_can_be_sent_with_the_message_and_without_a_text() -> None:
    model = seeing()
    async with served(model=model) as server:
        file = {"data": b64encode(PNG).decode(), "mimeType": "image/png", "name": "dot.png"}
        response = await server.client.post(CHAT, json={"attachments": [file]})
        assert response.status_code == 200
        sessions = (await server.client.get(f"{CHAT}/conversations")).json()["conversations"]
        assert sessions[0]["title"] == "dot.png"
    (message,) = model.requests[0].messages
    assert [type(part) for part in message.parts] == [ImagePart]  # type: ignore[union-attr]


GOOD = {"data": b64encode(PNG).decode()}
REFUSED: list[tuple[Any, str, str]] = [
    ([GOOD, {"data": ""}], "/attachments/1", "has 0 bytes"),
    ([{"data": "%%%"}], "/attachments/0/data", "is not base64"),
    ([{"data": "aGk=", "mimeType": "image/png"}], "/attachments/0", "its bytes are text/plain"),
    ([{"data": b64encode(PNG[:-20]).decode()}], "/attachments/0", "is cut off"),
    ([{"data": b64encode(sample_files.bomb()).decode()}], "/attachments/0", "60000 x 60000 pixels"),
    ([GOOD] * 500, "/attachments", "must have at most 100 files, has 500"),
    ([{"blobId": "0" * 64}], "/attachments/0", "does not exist"),
    ([{"url": "http://127.0.0.1/a.png"}], "/attachments/0", "cannot be fetched"),
    ([{}], "/attachments/0", ""),
    ([{"blobId": "0" * 64, "url": "https://x"}], "/attachments/0", ""),
    ([{"blobId": "../secret"}], "/attachments/0/blobId", ""),
    (["a"], "/attachments/0", ""),
    ({}, "/attachments", ""),
]


@pytest.mark.parametrize(("attachments", "field", "issue"), REFUSED)
async def test_a_message_with_a_bad_file_is_refused_and_nothing_is_kept(
    attachments: Any, field: str, issue: str
) -> None:
    async with served(model=seeing()) as server:
        response = await server.say("What?", attachments=attachments)
        assert response.status_code == 422
        (problem, *_) = response.json()["error"]["details"]
        assert problem["field"] == field
        assert issue in problem["issue"]
        blobs = server.runtime.parts.storage.blobs
        assert not await blobs.exists(await sample_files.hash_of(PNG))
        assert (await server.client.get(f"{CHAT}/conversations")).json()["meta"]["total"] == 0


@pytest.mark.parametrize("body", [{}, {"content": None}, {"attachments": []}, {"content": " "}])
async def test_a_message_needs_a_text_or_a_file(body: dict[str, Any]) -> None:
    async with served() as server:
        response = await server.client.post(CHAT, json=body)
    assert response.status_code == 422
    assert response.json()["error"]["details"][0]["field"] == "/content"


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"", 422), (b"\x00", 422), (PNG[:30], 422), (bytes(2000), 413), (bytes(100_000), 413)],
)
async def test_a_bad_upload_is_refused(content: bytes, status: int) -> None:
    async with served(limits=Limits(attachment_bytes=1000)) as server:
        assert (await uploaded(server, content)).status_code == status


async def test_an_upload_needs_a_form_with_one_file() -> None:
    async with served() as server:
        post = server.client.post
        assert (await post("/api/blobs", content=PNG)).status_code == 415
        twice = [("file", ("a", PNG)), ("file", ("b", PNG))]
        assert (await post("/api/blobs", files=twice)).status_code == 422
        assert (await post("/api/blobs", files={"other": ("a", PNG)})).status_code == 422


async def test_an_upload_is_for_its_profile_alone() -> None:
    async with served(model=seeing()) as server:
        ann, bob = [await server.database_parts.keys.create(each) for each in ("ann", "bob")]
        blob_id = (await uploaded(server, key=ann)).json()["blobId"]
        for key, status in ((ann, 200), (bob, 422)):
            headers = {"authorization": f"Bearer {key}"}
            body = {"content": "What?", "attachments": [{"blobId": blob_id}]}
            response = await server.client.post(CHAT, json=body, headers=headers)
            assert response.status_code == status
            seen = await server.client.get(f"/api/blobs/{blob_id}", headers=headers)
            assert seen.status_code == (200 if key == ann else 404)


async def test_a_message_that_is_answered_again_keeps_its_files() -> None:
    model = seeing()
    async with served(model=model) as server:
        message = (await server.say("What?", attachments=[GOOD])).json()["userMessage"]
        path = f"{CHAT}/messages/{message['id']}/regenerate"
        again = (await server.client.post(path)).json()["userMessage"]
        assert again["attachments"][0]["blobId"] == message["attachments"][0]["blobId"]
    assert [len(request.messages[0].parts) for request in model.requests] == [2, 2]  # type: ignore[union-attr]


async def test_erasing_a_message_deletes_its_files() -> None:
    async with served(model=seeing()) as server:
        message = (await server.say("What?", attachments=[GOOD])).json()["userMessage"]
        blob_id = message["attachments"][0]["blobId"]
        blobs = server.runtime.parts.storage.blobs
        assert await blobs.exists(blob_id)
        path = f"{CHAT}/messages/{message['id']}"
        assert (await server.client.delete(path)).status_code == 204
        assert not await blobs.exists(blob_id)


@pytest.mark.parametrize("whole", [True, False])
async def test_an_upload_is_erased_with_its_message_and_that_of_another_profile_stays(
    whole: bool,
) -> None:
    async with served(model=seeing()) as server:
        ann, bob = [await server.database_parts.keys.create(each) for each in ("ann", "bob")]
        await uploaded(server, key=bob)
        blob_id = (await uploaded(server, key=ann)).json()["blobId"]
        headers = {"authorization": f"Bearer {ann}"}
        body = {"content": "What?", "attachments": [{"blobId": blob_id}]}
        sent = (await server.client.post(CHAT, json=body, headers=headers)).json()["userMessage"]
        what = f"conversations/{sent['conversationId']}" if whole else f"messages/{sent['id']}"
        assert (await server.client.delete(f"{CHAT}/{what}", headers=headers)).status_code == 204
        again = await server.client.post(CHAT, json=body, headers=headers)
        assert again.status_code == 422
        path, of_bob = f"/api/blobs/{blob_id}", {"authorization": f"Bearer {bob}"}
        assert (await server.client.get(path, headers=headers)).status_code == 404
        assert (await server.client.get(path, headers=of_bob)).content == PNG


async def test_erasing_an_uploaded_file_deletes_its_bytes() -> None:
    async with served(model=seeing()) as server:
        blob_id = (await uploaded(server)).json()["blobId"]
        sent = (await server.say("What?", attachments=[{"blobId": blob_id}])).json()
        path = f"{CHAT}/messages/{sent['userMessage']['id']}"
        assert (await server.client.delete(path)).status_code == 204
        assert not await server.runtime.parts.storage.blobs.exists(blob_id)


async def test_erasing_a_message_without_a_text_erases_the_title_too() -> None:
    async with served(model=seeing()) as server:
        file = {**GOOD, "name": "secret plan.png"}
        response = await server.client.post(CHAT, json={"attachments": [file]})
        message = response.json()["userMessage"]
        path = f"{CHAT}/messages/{message['id']}"
        assert (await server.client.delete(path)).status_code == 204
        sessions = (await server.client.get(f"{CHAT}/conversations")).json()["conversations"]
        assert sessions[0]["title"] == "New conversation"
        records = await server.runtime.parts.storage.log.read(LogId(message["conversationId"]))
        assert "secret" not in "".join(f"{to_wire(each.event)}" for each in records)


async def test_a_deleted_conversation_takes_its_files_unless_another_has_them() -> None:
    async with served(model=seeing()) as server:
        first, second = [
            (await server.say("What?", attachments=[GOOD])).json()["userMessage"] for _ in range(2)
        ]
        blob_id = first["attachments"][0]["blobId"]
        blobs = server.runtime.parts.storage.blobs
        for message, is_there in ((first, True), (second, False)):
            log_id = LogId(message["conversationId"])
            await server.database_parts.erasure.erase_log(log_id)
            assert await blobs.exists(blob_id) is is_there


async def test_files_of_large_messages_survive_the_erasure_of_others() -> None:
    """The body of such a message is a blob itself, so no search of the rows finds the files."""
    async with served(model=seeing(), limits=Limits(body_bytes=100)) as server:
        kept = (await server.say("x" * 400, attachments=[GOOD])).json()["userMessage"]
        gone = (await server.say("y" * 400, attachments=[GOOD])).json()["userMessage"]
        await server.database_parts.erasure.erase_log(LogId(gone["conversationId"]))
        blobs = server.runtime.parts.storage.blobs
        assert await blobs.exists(kept["attachments"][0]["blobId"])
        await server.database_parts.erasure.erase_log(LogId(kept["conversationId"]))
        assert not await blobs.exists(kept["attachments"][0]["blobId"])


async def swept(server: InMemoryServer, clock: FakeClock) -> None:
    """Let the sweeper come twice, as far apart as it does."""
    for _ in range(2):
        before = Moment(clock.now() - 1000 * LOOSE_SECONDS)
        await server.database_parts.erasure.sweep(before=before)
        clock.advance(LOOSE_SECONDS + 1)
    before = Moment(clock.now() - 1000 * LOOSE_SECONDS)
    await server.database_parts.erasure.sweep(before=before)


async def test_an_upload_that_no_message_names_is_swept() -> None:
    clock = FakeClock()
    async with served(model=seeing(), clock=clock) as server:
        blob_id = (await uploaded(server)).json()["blobId"]
        clock.advance(24 * 3600)
        await swept(server, clock)
        assert not await server.runtime.parts.storage.blobs.exists(blob_id)


async def test_an_upload_that_a_message_names_outlives_its_day() -> None:
    clock = FakeClock()
    async with served(model=seeing(), clock=clock) as server:
        blob_id = (await uploaded(server)).json()["blobId"]
        await server.say("What?", attachments=[{"blobId": blob_id}])
        clock.advance(24 * 3600)
        await swept(server, clock)
        assert await server.runtime.parts.storage.blobs.exists(blob_id)


async def test_a_program_sends_files_and_asks_on(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    model = seeing(say("Red."), say("Four."))
    async with memory_runtime(model=model) as runtime:
        reply = await ask(runtime, ["What is this?", Image.open(path)])
        await ask(runtime, "How wide?", session=reply.session_id)
    first, *_ = model.requests[1].messages
    assert [type(part) for part in first.parts] == [ImagePart, TextPart]  # type: ignore[union-attr]


async def test_a_runtime_that_takes_over_sends_the_same_request(tmp_path: Path) -> None:
    place = MemoryStorage()
    models = [seeing(call("none"), say("Red.")), seeing()]
    async with memory_runtime(model=models[0], place=place) as runtime:
        reply = await ask(runtime, [Image(PNG, name="a.png"), "What?"])
    async with memory_runtime(model=models[1], place=place) as runtime:
        await ask(runtime, "And?", session=reply.session_id)
    assert models[1].requests[0].messages[:2] == models[0].requests[1].messages[:2]


async def test_an_answer_to_a_question_has_no_files() -> None:
    model = ScriptedModel([call("color"), say("Ok.")])
    async with served(model=model, tools=[Act("color", ask_color)]) as server:
        asked = await server.say("Hi")
        conversation = asked.json()["conversationId"]
        response = await server.say("This", conversationId=conversation, attachments=[GOOD])
    assert response.status_code == 422
    assert response.json()["error"]["details"][0]["field"] == "/attachments"


async def test_a_message_that_is_not_written_leaves_its_files_to_the_sweep() -> None:
    clock = FakeClock()
    async with served(model=seeing(), clock=clock) as server:
        runtime = server.runtime
        kept = await runtime.parts.chat.attachments.keep([Image(PNG)], runtime.local)
        with pytest.raises(InvalidRequest):
            await runtime.requests.send(NewMessage(content="x" * 200_000, attachments=kept.files))
        await swept(server, clock)
        assert not await runtime.parts.storage.blobs.exists(kept.files[0].blob_id)


async def draw(input: Any, invocation: Any) -> Any:
    large = sample_files.image("PNG", (200, 100), compress_level=0)
    return {"image": f"data:image/png;base64,{b64encode(large).decode()}"}


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_model_sees_the_images_of_results_if_its_agent_wants(wanted: bool) -> None:
    model = seeing(call("draw"), say("A red one."))
    agent = Agent("assistant", settings=ChatSettings(tool_images=wanted))
    async with served(model=model, tools=[Act("draw", draw)], agents=[agent]) as server:
        assert (await server.say("Draw")).status_code == 200
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage)
    assert "[image displayed above]" in result.content
    kinds = [TextPart, ImagePart] if wanted else []
    assert [type(part) for part in result.parts] == kinds


def claude(server: FakeServer) -> AnthropicModel:
    address = server.url.removesuffix("/v1")
    config = ModelConfig(name="c", provider="anthropic", model="claude-opus-4-1", base_url=address)
    return AnthropicModel(config, Limits())


def widths(body: dict[str, Any]) -> list[int]:
    """Return the widths of the images of a request."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    images = [b64decode(each["source"]["data"]) for each in blocks if each["type"] == "image"]
    return [inspect(each).width or 0 for each in images]


async def test_images_that_a_provider_finds_too_large_are_sent_once_more() -> None:
    error = {
        "type": "invalid_request_error",
        "message": "too large",
        "details": {
            "error_code": "image_dimensions_too_large",
            "max_side_length_pixels": 500,
            "paths": ["messages.0.content.0"],
        },
    }
    refused = Canned([json.dumps({"type": "error", "error": error}).encode()], status=400)
    answer = Canned(anthropic_reply(HELLO, stop="end_turn"))
    large = Image(sample_files.image("JPEG", (900, 90)))
    for answers, status in (([refused, answer], "succeeded"), ([refused, refused], "failed")):
        async with (
            fake_server(*answers) as server,
            memory_runtime(model=claude(server)) as runtime,
        ):
            reply = await ask(runtime, ["What?", large])
        assert reply.status == status
        assert [widths(body) for body in server.bodies] == [[900], [500]]


async def test_a_body_that_is_too_large_advises_an_upload() -> None:
    async with served(limits=Limits(request_bytes=100)) as server:
        response = await server.say("What?", attachments=[GOOD])
    assert response.status_code == 413
    assert "send files with POST /api/blobs" in response.json()["error"]["message"]
