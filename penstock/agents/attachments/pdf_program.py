"""Extracts the text of a PDF. A program of its own, because files of strangers are read here.

`python -I -m penstock.agents.attachments.pdf_program` reads a PDF from stdin and writes one JSON
object: `text`, or `error` with the reason. It limits its own memory and computing time, so that a
file that is made to exhaust them ends this process and nothing else.
"""

import io
import json
import logging
import resource
import signal
import sys

from pypdf import PdfReader
from pypdf.errors import PyPdfError

MAX_MEMORY = 512 << 20
MAX_SECONDS = 60
MAX_CHARS = 100_000
"""Most characters that are extracted."""
MAX_ERROR_CHARS = 500
PAGE_BREAK = "\n\n"
_FAILURES = (PyPdfError, ArithmeticError, AttributeError, LookupError, OSError)
_FAILURES_TOO = (RecursionError, TypeError, ValueError, MemoryError)
"""Exceptions of pypdf for broken files: its checks are not complete."""


def main() -> None:
    """Read a PDF and write its text."""
    logging.disable()
    # The parent kills this process when its time is up. The alarm is for a parent that has died.
    signal.alarm(MAX_SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    try:
        answer = {"text": extract(sys.stdin.buffer.read())}
    except (*_FAILURES, *_FAILURES_TOO) as error:
        answer = {"error": f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]}
    sys.stdout.write(json.dumps(answer))


def extract(content: bytes) -> str:
    """Return the text of all pages, as far as `MAX_CHARS`."""
    reader = PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it is encrypted")
    pages: list[str] = []
    left = MAX_CHARS
    for page in reader.pages:
        pages.append(page.extract_text().strip()[:left])
        left -= len(pages[-1])
        if left <= 0:
            break
    return PAGE_BREAK.join(each for each in pages if each)


if __name__ == "__main__":
    main()
