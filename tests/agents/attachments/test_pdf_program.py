"""The program that reads a PDF: what it extracts, and how it ends for hostile files."""

import json
import subprocess
import sys

import pytest

from penstock.agents.attachments import pdf_program
from penstock.agents.attachments.pdf_program import MAX_CHARS, extract
from tests.kit import sample_files


def test_a_long_document_is_cut() -> None:
    pages = ["x" * 40_000] * 4
    assert len(extract(sample_files.pdf(*pages)).replace("\n\n", "")) == MAX_CHARS


def test_a_document_with_a_password_is_refused() -> None:
    with pytest.raises(ValueError, match="encrypted"):
        extract(sample_files.pdf("x", locked_by="sesame"))


def loop_of_pages() -> bytes:
    """Return a PDF whose pages contain each other without end."""
    content = sample_files.pdf("one")
    return content.replace(b"/Kids [ 4 0 R ]", b"/Kids [ 2 0 R ]")


@pytest.mark.programs
@pytest.mark.slow("starts a process for each file")
@pytest.mark.parametrize(
    "content", [b"", b"%PDF-", loop_of_pages(), sample_files.pdf("x")[:300]], ids=range(4)
)
def test_a_broken_file_is_an_error_and_no_traceback(content: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", pdf_program.__name__],
        input=content,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == b""
    assert list(json.loads(done.stdout)) == ["error"]
