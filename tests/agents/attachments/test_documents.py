"""Texts of PDF files, from a process of its own."""

import pytest

from penstock.agents.attachments.documents import PdfTexts
from tests.kit import sample_files

pytestmark = pytest.mark.programs


@pytest.mark.slow("starts a process that imports pypdf")
async def test_the_text_of_each_page_is_extracted() -> None:
    text = await PdfTexts().extract(sample_files.pdf("Hello there", "Second page"))
    assert text == "Hello there\n\nSecond page"


@pytest.mark.slow("starts a process for each file")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (sample_files.pdf("secret", locked_by="sesame"), "its text cannot be read: "),
        (sample_files.pdf(""), "it has no text, only images"),
        (b"%PDF-1.7\n%%EOF", "its text cannot be read: "),
        (b"", "its text cannot be read: "),
    ],
    ids=["encrypted", "no text", "broken", "empty"],
)
async def test_a_file_without_text_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        await PdfTexts().extract(content)


@pytest.mark.slow("starts a process")
async def test_a_process_that_takes_too_long_is_killed() -> None:
    with pytest.raises(ValueError, match=r"within 0\.001 s"):
        await PdfTexts(seconds=0.001).extract(sample_files.pdf("Hello"))


@pytest.mark.slow("starts a process")
async def test_the_text_has_no_control_characters() -> None:
    content = sample_files.pdf(r"cafe\000 \007x")
    assert await PdfTexts().extract(content) == "cafe x"
