"""Outputs as a model and people read them."""

import base64
import json
import struct
from typing import Any

import pytest

from penstock.core.call import Origin
from penstock.core.call_errors import InvalidOutput, OutputTooLarge
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.codec import decode, encode, kind_of
from penstock.core.events.events import CallSettled
from penstock.core.ids import ArtifactId, BlobId
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs, open_blobs
from penstock.testing.invocation import open_workbench
from penstock.tools.artifacts import Artifacts, LoggedOutcome, OutputForm
from penstock.tools.policy import Caller
from penstock.tools.python.function import tool

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 640, 480) + bytes(300)
PNG_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
MARK = "\n[truncated: {} characters in all; full result in artifact art_1]"


@pytest.fixture
def blobs() -> Blobs:
    """Keeps bytes in memory."""
    return open_blobs("memory:///")


@pytest.fixture
def artifacts(blobs: Blobs) -> Artifacts:
    """Names its artifacts art_1."""
    return Artifacts(blobs, Limits(), lambda prefix: f"{prefix}_1")


async def shown(artifacts: Artifacts, output: Any, clip_at: int | None = 10_000) -> LoggedOutcome:
    return await artifacts.show(Envelope.success(output), clip_at=clip_at)


@pytest.mark.parametrize(
    ("output", "context"),
    [
        (None, "null"),
        ({"b": 1, "a": [True, None]}, '{"b":1,"a":[true,null]}'),
        ("grün ✓", "grün ✓"),
        ('{"a": "b"}', '{"a": "b"}'),
        ("", ""),
        (["grün ✓"], '["grün ✓"]'),
        ([float("nan"), float("inf"), 1.5], "[null,null,1.5]"),
        ("a\ud800b", "a\ufffdb"),
        (["a\ud800b"], '["a\ufffdb"]'),
    ],
)
async def test_an_output_becomes_its_text(artifacts: Artifacts, output: Any, context: str) -> None:
    """A text as it is; else JSON, no spaces, keys in the tool's order, NaN as null."""
    seen = await shown(artifacts, output)
    event = CallSettled(tool_id="t", envelope=seen.envelope, context=seen.context)
    assert decode(kind_of(event), encode(event)) == event  # what is at work is what is read back
    assert (seen.context, seen.is_text) == (context, isinstance(output, str))


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("é" * 10_000, "é" * 10_000),
        (["é" * 9_996], f'["{"é" * 9_996}"]'),
        ("é" * 10_001, "é" * 10_001),
        (["é" * 9_997], f'["{"é" * 9_997}"]'),
    ],
)
async def test_ten_thousand_characters_pass_whole_and_one_more_is_clipped(
    artifacts: Artifacts, blobs: Blobs, output: Any, text: str
) -> None:
    """10,000 characters pass whole; 10,001 are clipped to exactly 10,000."""
    seen = await shown(artifacts, output)
    if len(text) == 10_000:
        assert (seen.context, seen.artifact_id, seen.envelope.output) == (text, None, output)
        return
    marker = MARK.format("10001")
    assert seen.context == text[: 10_000 - len(marker)] + marker
    assert len(seen.context) == 10_000
    assert (seen.artifact_id, seen.total_characters) == ("art_1", 10_001)
    assert (await blobs.get(seen.artifact_blob or BlobId(""))).decode() == text


@pytest.mark.parametrize(
    ("output", "text"),
    [("x" * 50_000, "x" * 50_000), (["x" * 50_000], json.dumps(["x" * 50_000]))],
)
async def test_the_event_of_a_clipped_result_holds_it_once(
    artifacts: Artifacts, output: Any, text: str
) -> None:
    seen = await shown(artifacts, output)
    assert seen.envelope == Envelope.success(None)
    settled = CallSettled(
        tool_id="t",
        envelope=seen.envelope,
        context=seen.context,
        is_text=seen.is_text,
        artifact_id=seen.artifact_id,
        artifact_blob=seen.artifact_blob,
    )
    assert await artifacts.whole(settled) == Envelope.success(output)
    assert await artifacts.text(settled) == text


async def test_a_text_that_an_older_version_kept_as_json_is_read_as_the_text(
    artifacts: Artifacts, blobs: Blobs
) -> None:
    kept = await blobs.put(b'"long"')
    settled = CallSettled(tool_id="t", envelope=Envelope.success(None), artifact_blob=kept)
    assert await artifacts.whole(settled) == Envelope.success("long")


async def test_code_is_not_clipped_and_images_stay(artifacts: Artifacts) -> None:
    seen = await shown(artifacts, {"img": PNG_URL, "text": "x" * 20_000}, None)
    assert (seen.artifact_id, PNG_URL in (seen.context or "")) == (None, True)


async def test_code_gets_a_large_output_whole_also_from_the_ledger() -> None:
    """Clipping concerns what a model sees; scripts and direct callers get the whole output."""

    @tool(effect="none", direct_call=True)
    async def large() -> list[str]:
        """Say much."""
        return ["x" * 1000] * 100

    bench = await open_workbench(large)
    direct = Caller(origin=Origin.DIRECT)
    for _ in range(2):
        envelope = await bench.call("large", caller=direct)
        assert envelope.output == ["x" * 1000] * 100
        bench.enter()
    (settled,) = await bench.settled()
    assert settled.envelope.output is None
    assert settled.artifact_blob


@pytest.mark.parametrize(("extra", "fits"), [(0, True), (1, False)])
async def test_an_output_over_its_byte_limit_is_refused(extra: int, fits: bool) -> None:
    artifacts = Artifacts(open_blobs("memory:///"), Limits(output_bytes=10), lambda p: p)
    output = ["é" * 3 + "x" * extra]
    if fits:
        assert (await shown(artifacts, output)).context
        return
    with pytest.raises(OutputTooLarge, match="has 11 bytes as JSON; at most 10 are kept"):
        await shown(artifacts, output)
    with pytest.raises(OutputTooLarge, match="has 11 bytes; at most 10 are kept"):
        await shown(artifacts, "é" * 5 + "x")
    assert (await shown(artifacts, "é" * 5)).context


@pytest.mark.chaos
@pytest.mark.parametrize(("levels", "fits"), [(200, True), (201, False), (100_000, False)])
async def test_an_output_too_deep_is_refused(artifacts: Artifacts, levels: int, fits: bool) -> None:
    output: Any = 1
    for _ in range(levels):
        output = [output]
    if fits:
        assert (await shown(artifacts, output)).context
        return
    with pytest.raises(OutputTooLarge, match="nested more than 200 deep"):
        await shown(artifacts, output)


async def test_an_output_that_is_not_json_is_refused(artifacts: Artifacts) -> None:
    with pytest.raises(InvalidOutput, match="the output is not JSON: Object of type object"):
        await shown(artifacts, {"a": object()})


async def test_an_image_becomes_a_placeholder_and_a_file(
    artifacts: Artifacts, blobs: Blobs
) -> None:
    """Full screenshot stored; placeholder `[image displayed above]`; URL for UI."""
    seen = await shown(artifacts, {"title": "Shot", "image": PNG_URL})
    assert seen.context == '{"title":"Shot","image":"[image displayed above]"}'
    assert seen.envelope.output == {"title": "Shot", "image": "[image displayed above]"}
    assert seen.preview == "Shot"
    (file,) = seen.files
    assert (file.mime_type, file.size, file.is_image) == ("image/png", len(PNG), True)
    assert (file.width, file.height) == (640, 480)
    assert await blobs.get(file.blob_id) == PNG


async def test_an_image_is_extracted_before_the_rest_is_clipped(artifacts: Artifacts) -> None:
    seen = await shown(artifacts, {"image": PNG_URL + ".", "text": "y" * 20_000})
    assert (seen.context or "").startswith('{"image":"[image displayed above]')
    assert len(seen.files) == 1


async def test_an_image_in_an_error_is_extracted_too(artifacts: Artifacts) -> None:
    error = ErrorDetail(code="X", message=f"page said {PNG_URL}!")
    seen = await artifacts.show(Envelope(Status.FAILED, None, error), clip_at=10_000)
    assert seen.context == '{"error":"page said [image displayed above]!","code":"X"}'
    assert len(seen.files) == 1


@pytest.mark.parametrize(
    ("error", "context"),
    [
        (ErrorDetail(code="X", message="m"), {"error": "m", "code": "X"}),
        (
            ErrorDetail(code="X", message="m" * 2001, suggestion="s", details={"a": 1}),
            {"error": "m" * 1999 + "…", "code": "X", "suggestion": "s", "details": {"a": 1}},
        ),
        (
            ErrorDetail(code="X", message="m", details={"a": "b" * 3000}),
            {"error": "m", "code": "X", "details": '{"a":"' + "b" * 1993 + "…"},
        ),
    ],
)
async def test_a_failure_is_short_and_has_no_preview(
    artifacts: Artifacts, error: ErrorDetail, context: Any
) -> None:
    """On failure `{error, code, suggestion?, details?}`, each at most 2,000 characters."""
    seen = await artifacts.show(Envelope(Status.FAILED, None, error), clip_at=10_000)
    assert json.loads(seen.context or "") == context
    assert seen.preview is None
    assert seen.envelope.error
    assert len(seen.envelope.error.message) <= 2000


@pytest.mark.parametrize(
    ("own", "line"),
    [
        ("Its own", "Its own"),
        ("two\n  lines", "two lines"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "…"),
        (None, "Found 5 results"),
    ],
)
async def test_the_preview_is_the_tool_s_own_or_follows_the_rules(
    artifacts: Artifacts, own: str | None, line: str
) -> None:
    """`Found 5 results` for five; 200 and 201 characters."""
    envelope = Envelope.success({"results": [1] * 5})
    seen = await artifacts.show(envelope, OutputForm(lambda _: own), clip_at=10_000)
    assert seen.preview == line


async def test_bytes_may_be_kept_for_people(artifacts: Artifacts) -> None:
    kept = await artifacts.keep(PNG, "image/png", name="shot.png")
    assert (kept.is_image, kept.width, kept.name) == (True, 640, "shot.png")
    assert not (await artifacts.keep(b"no image", "image/png")).is_image
    with pytest.raises(OutputTooLarge, match="too many to keep"):
        await artifacts.keep(bytes(10 * 1024 * 1024 + 1), "text/plain")


async def test_a_result_that_was_never_clipped_is_its_own_text(artifacts: Artifacts) -> None:
    settled = CallSettled(
        tool_id="t", envelope=Envelope.success([1]), context="[1]", artifact_id=ArtifactId("art_1")
    )
    assert await artifacts.text(settled) == "[1]"
    assert await artifacts.whole(settled) == Envelope.success([1])
