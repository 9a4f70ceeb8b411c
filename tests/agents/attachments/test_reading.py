"""Files as a model reads them: what its card allows as bytes, all else as text."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.agents.attachments.reading import AttachmentReader, ReadableModel
from penstock.core.errors import ModelRefused
from penstock.core.ids import BlobId, CallId, LogId
from penstock.core.messages import (
    AssistantMessage,
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    Part,
    StoredFile,
    TextPart,
    ToolMessage,
    UserMessage,
)
from penstock.engine.session_state import SessionState
from penstock.models.image_rules import TEXT_CHARS
from penstock.models.model import ModelRequest
from penstock.models.scripted import SCRIPTED, ScriptedModel, say
from penstock.store.blobs import Blobs, Memory
from tests.kit import sample_files

LOG = LogId("conv_1")
BLIND = SCRIPTED
SEES = replace(SCRIPTED, images=True, pdf=True, audio=True)


class Store:
    """Blobs, and references to them."""

    def __init__(self) -> None:
        self.blobs = Blobs(Memory())
        self.reader = AttachmentReader(self.blobs)

    async def file(self, content: bytes, mime_type: str, name: str, **more: Any) -> StoredFile:
        return StoredFile(
            blob_id=await self.blobs.put(content),
            mime_type=mime_type,
            size=len(content),
            is_image=mime_type.startswith("image/"),
            name=name,
            **more,
        )

    async def png(self, name: str = "a.png", **more: Any) -> StoredFile:
        return await self.file(sample_files.image(), "image/png", name, **more)

    async def read(self, *messages: Message, **more: Any) -> list[Any]:
        """Return the messages as the model receives them."""
        tool_images = more.pop("tool_images", False)
        model = ScriptedModel([say("ok")])
        model.card = more.pop("card", SEES)
        readable = ReadableModel(model, self.reader, LOG, tool_images=tool_images)
        request = ModelRequest(system="", messages=messages)
        assert [event async for event in readable.stream(request)]
        assert readable.card is model.card
        return list(model.requests[0].messages)

    async def parts(self, *files: StoredFile, text: str = "What?", **more: Any) -> list[Part]:
        (message,) = await self.read(UserMessage(text, files), **more)
        assert message.content == text
        return list(message.parts)


async def test_files_stand_before_the_text_as_the_card_allows() -> None:
    store = Store()
    paper = sample_files.pdf("Hello")
    files = [
        await store.png(),
        await store.file(paper, "application/pdf", "a.pdf"),
        await store.file(sample_files.wav(), "audio/wav", "a.wav"),
    ]
    image, document, sound, text = await store.parts(*files)
    png = sample_files.image()
    assert image == ImagePart(content=png, mime_type="image/png", width=4, height=2)
    assert document == DocumentPart(content=paper, mime_type="application/pdf", name="a.pdf")
    assert sound == AudioPart(content=sample_files.wav(), mime_type="audio/wav")
    assert text == TextPart("What?")


async def test_what_a_model_cannot_read_is_a_line() -> None:
    store = Store()
    sound = await store.file(sample_files.wav(), "audio/wav", "a.wav")
    parts = await store.parts(await store.png(), sound, card=BLIND)
    assert parts == [
        TextPart("[attachment a.png: image/png, 73 bytes; this model cannot read it]"),
        TextPart("[attachment a.wav: audio/wav, 16044 bytes; this model cannot read it]"),
        TextPart("What?"),
    ]


async def test_a_text_file_is_read_by_every_model() -> None:
    store = Store()
    note = await store.file("\ufeffgrüße\n".encode(), "text/markdown", "a.md")
    for card in (BLIND, SEES):
        part, _ = await store.parts(note, card=card)
        assert part == TextPart(
            "[attachment a.md: text/markdown, 11 bytes]\ngrüße\n\n[end of a.md]"
        )


async def test_a_long_text_is_cut() -> None:
    store = Store()
    note = await store.file(b"x" * (TEXT_CHARS + 5), "text/plain", "a.txt")
    (part,) = await store.parts(note, text="")
    assert isinstance(part, TextPart)
    assert part.text.endswith("x\n[5 more characters are left out]\n[end of a.txt]")


@pytest.mark.programs
@pytest.mark.slow("starts a process that imports pypdf")
async def test_a_model_that_reads_no_pdf_gets_its_text() -> None:
    store = Store()
    paper = await store.file(sample_files.pdf("Hello"), "application/pdf", "a.pdf")
    part, _ = await store.parts(paper, card=BLIND)
    assert isinstance(part, TextPart)
    assert part.text.endswith("\nHello\n[end of a.pdf]")
    locked = await store.file(sample_files.pdf("x", locked_by="y"), "application/pdf", "b.pdf")
    part, _ = await store.parts(locked, card=BLIND)
    assert isinstance(part, TextPart)
    assert "; this model cannot read it, and its text cannot be read: " in part.text


async def test_a_file_between_texts_keeps_its_place() -> None:
    store = Store()
    first, second = await store.png(at=3), await store.png(at=8)
    parts = await store.parts(first, second, text="One\n\nTwo\n\nThree")
    kinds = [part.text if isinstance(part, TextPart) else "image" for part in parts]
    assert kinds == ["One", "image", "Two", "image", "Three"]


@pytest.mark.parametrize(
    ("form", "mime_type", "kind"),
    [("PNG", "image/png", ImagePart), ("WAV", "audio/wav", AudioPart)],
)
async def test_models_of_one_provider_read_a_file_each_in_its_own_form(
    form: str, mime_type: str, kind: type
) -> None:
    """What one of them was sent is kept, but not for the other."""
    store = Store()
    content = sample_files.image() if form == "PNG" else b"RIFF1234WAVEfmt "
    file = await store.file(content, mime_type, f"a.{form.lower()}")
    for card in (SEES, replace(BLIND, pdf=True), SEES):
        part, _ = await store.parts(file, card=card)
        assert isinstance(part, kind) is (card is SEES)


@pytest.mark.parametrize(
    ("card", "side"),
    [
        (replace(SEES, provider="anthropic", name="claude-opus-4-1"), 1568),
        (replace(SEES, provider="anthropic", name="claude-opus-5-5"), 2576),
        (replace(SEES, provider="openai", name="gpt-4o"), 2048),
        (replace(SEES, provider="google", name="gemini-3-pro"), 1536),
    ],
)
async def test_an_image_is_scaled_to_the_size_that_the_provider_uses(card: Any, side: int) -> None:
    store = Store()
    large = await store.file(sample_files.image("JPEG", (3000, 30)), "image/jpeg", "a.jpg")
    part, _ = await store.parts(large, card=card)
    assert isinstance(part, ImagePart)
    assert part.width == side


async def test_many_images_are_scaled_to_the_size_that_the_provider_accepts() -> None:
    store, card = Store(), replace(SEES, provider="anthropic", name="claude-opus-5-5")
    large = await store.file(sample_files.image("JPEG", (3000, 30)), "image/jpeg", "a.jpg")
    parts = await store.parts(*[large] * 21, card=card)
    assert {part.width for part in parts if isinstance(part, ImagePart)} == {2000}


async def test_the_oldest_images_make_room_for_the_newest() -> None:
    store, card = Store(), replace(SEES, provider="anthropic", name="claude-opus-4-1")
    image = await store.png()
    old, new = UserMessage("old", (image, image)), UserMessage("new", (image,) * 99)
    read = await store.read(old, new, card=card)
    assert [type(part) for part in read[0].parts] == [TextPart, ImagePart, TextPart]
    assert read[0].parts[0].text.endswith("; left out: at most 100 images are sent in a request]")
    assert [type(part) for part in read[1].parts] == [ImagePart] * 99 + [TextPart]


async def test_a_request_that_would_be_too_large_leaves_out_the_oldest_files() -> None:
    store = Store()
    paper = await store.file(b"%PDF-" + bytes(20 << 20), "application/pdf", "a.pdf")
    old, new = await store.read(UserMessage("old", (paper,)), UserMessage("new", (paper,)))
    assert isinstance(new.parts[0], DocumentPart)
    assert "; left out: the request would be too large]" in old.parts[0].text


async def test_bytes_that_are_lost_become_a_line() -> None:
    store = Store()
    lost = StoredFile(
        blob_id=BlobId("a" * 64), mime_type="image/png", size=3, is_image=True, name="a.png"
    )
    part, _ = await store.parts(lost)
    assert part == TextPart("[attachment a.png: image/png, 3 bytes; its bytes are lost]")


async def test_an_image_that_does_not_decode_becomes_a_line() -> None:
    store = Store()
    broken = await store.file(sample_files.image()[:50] + bytes(30), "image/png", "a.png")
    part, _ = await store.parts(broken)
    assert isinstance(part, TextPart)
    assert "it cannot be decoded" in part.text


@pytest.mark.parametrize(("wanted", "count"), [(True, 2), (False, 0)])
async def test_images_of_results_are_sent_if_the_agent_wants_them(wanted: bool, count: int) -> None:
    store = Store()
    image = await store.png()
    result = ToolMessage(CallId("tc"), "look", "[image displayed above]", files=(image,))
    said = AssistantMessage("")
    *_, read = await store.read(said, result, tool_images=wanted)
    assert len(read.parts) == count
    if wanted:
        assert read.parts[0] == TextPart("[image displayed above]")
    *_, blind = await store.read(said, result, tool_images=True, card=BLIND)
    assert blind.parts == ()


async def test_a_prepared_image_is_kept_and_used_again() -> None:
    store = Store()
    large = await store.file(sample_files.image("PNG", (3000, 30)), "image/png", "a.png")
    first, _ = await store.parts(large)
    again, _ = await store.parts(large)
    assert first is again


async def test_two_requests_with_the_same_files_are_the_same() -> None:
    store = Store()
    large = await store.file(sample_files.image("JPEG", (3000, 30)), "image/jpeg", "a.jpg")
    first = await store.parts(large)
    store.reader = AttachmentReader(store.blobs)
    assert await store.parts(large) == first


def lacks(*packages: str) -> Any:
    return lambda package: package not in packages


async def test_without_pillow_an_image_is_sent_as_it_is_up_to_the_limit_of_its_provider() -> None:
    store, card = Store(), replace(SEES, provider="anthropic", name="claude-opus-4-1")
    store.reader = AttachmentReader(store.blobs, has=lacks("PIL"))
    content = sample_files.turned((3000, 30))
    file = await store.file(content, "image/jpeg", "a.jpg", width=3000, height=30)
    part, _ = await store.parts(file, card=card)
    assert part == ImagePart(content=content, mime_type="image/jpeg", width=3000, height=30)
    wide = await store.file(content, "image/jpeg", "b.jpg", width=9000, height=30)
    with pytest.raises(ModelRefused, match=r"pip install 'penstock\[images\]'") as caught:
        await store.parts(wide, card=card)
    assert "the image 'b.jpg' has 9000 x 30 pixels" in str(caught.value)
    assert "claude-opus-4-1 accepts 8000 pixels a side" in str(caught.value)


async def test_without_pypdf_the_line_of_a_pdf_names_what_to_install() -> None:
    store = Store()
    store.reader = AttachmentReader(store.blobs, has=lacks("pypdf"))
    paper = await store.file(sample_files.pdf("Hello"), "application/pdf", "a.pdf")
    part, _ = await store.parts(paper, card=BLIND)
    assert isinstance(part, TextPart)
    assert "its text cannot be read: pip install 'penstock[docs]'" in part.text


async def test_an_erasure_drops_prepared_files() -> None:
    store = Store()
    large = await store.file(sample_files.image("PNG", (3000, 30)), "image/png", "a.png")
    await store.parts(large)
    await store.blobs.delete(large.blob_id)
    assert isinstance((await store.parts(large))[0], ImagePart)
    store.reader.forget(LogId("conv_2"))
    assert isinstance((await store.parts(large))[0], ImagePart)
    store.reader.forget(LOG)
    assert isinstance((await store.parts(large))[0], TextPart)


async def test_prepared_files_go_with_the_state_of_their_conversation() -> None:
    store, state = Store(), SessionState(LOG)
    store.reader.watch(state)
    store.reader.watch(state)
    large = await store.file(sample_files.image("PNG", (3000, 30)), "image/png", "a.png")
    await store.parts(large)
    await store.blobs.delete(large.blob_id)
    del state
    assert isinstance((await store.parts(large))[0], TextPart)
