"""The text of a PDF, for models that read no PDF: extracted in a process of its own.

Guarantees: a file that is made to exhaust memory or time costs at most 512 MiB and 60 seconds of
one process, which is killed then; at most `MAX_AT_ONCE` run at once. It relies on pdf_program.py to
set its own limits. Proof: tests/agents/attachments/test_documents.py.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from unicodedata import normalize

from penstock.core.exhaustion import starting_process
from penstock.core.json_values.json_text import parse_json
from penstock.core.late import is_installed

SECONDS = 60.0
MAX_AT_ONCE = 2
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_PROGRAM = ("-I", "-m", "penstock.agents.attachments.pdf_program")


class PdfTexts:
    """Extracts the texts of PDF files, a few at once."""

    def __init__(
        self, seconds: float = SECONDS, *, has: Callable[[str], bool] = is_installed
    ) -> None:
        self._seconds = seconds
        self._has = has
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)

    async def extract(self, content: bytes) -> str:
        """Return the text of a PDF. Raises ValueError, with the reason, if it has none."""
        if not self._has("pypdf"):
            raise ValueError("its text cannot be read: pip install 'penstock[docs]'")
        async with self._slots:
            answer = await self._run(content)
        if not isinstance(answer, dict) or "text" not in answer:
            reason = answer.get("error") if isinstance(answer, dict) else None
            raise ValueError(f"its text cannot be read: {reason or 'it needs too much memory'}")
        text = _clean(str(answer["text"]))
        if not text.strip():
            raise ValueError("it has no text, only images")
        return text

    async def _run(self, content: bytes) -> object:
        with starting_process():
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *_PROGRAM,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
            )
        try:
            async with asyncio.timeout(self._seconds):
                said, _ = await process.communicate(content)
        except TimeoutError:
            raise ValueError(f"its text cannot be read within {self._seconds:g} s") from None
        finally:
            if process.returncode is None:
                # Not Process.kill: it may collect the exit code before asyncio does (gh-87744).
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                await process.wait()
        return parse_json(said) if said else None


def _clean(text: str) -> str:
    """Return a text in NFC, without characters that no model reads: fonts may contain any."""
    return normalize("NFC", _CONTROL.sub("", text.replace("\r\n", "\n")))
