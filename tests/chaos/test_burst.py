"""More streams at once than a process may have files: each is answered, and none is lost."""

import asyncio
import json
import re
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.kit.server import CHAT

FILES = 96
STREAMS = 150
BODY = json.dumps({"content": "hello", "stream": True}).encode()
REQUEST = (
    f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    f"connection: close\r\ncontent-length: {len(BODY)}\r\n\r\n"
).encode() + BODY


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a server that may open few files."""
    (tmp_path / "penstock.toml").write_text("")
    command = [sys.executable, "-m", "penstock", "serve", str(tmp_path), "--port", "0"]
    few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (FILES, FILES))
    with (
        (tmp_path / "said").open("w+") as said,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            preexec_fn=few,  # noqa: PLW1509
        ) as server,
    ):
        assert server.stdout is not None
        found = re.search(r":(\d+)$", server.stdout.readline().strip())
        assert found, (tmp_path / "said").read_text()
        yield int(found[1])
        server.terminate()
        server.stdout.read()
        said.seek(0)
        assert "Traceback" not in said.read()


async def answered(port: int, answers: Counter[str]) -> None:
    """Send a message until it is taken; note how often it was refused."""
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        answer = (await reader.read()).decode()
        writer.close()
        status = answer[9:12]
        answers[status] += 1
        if status == "200":
            assert '"type":"message_complete"' in answer
            return
        assert status == "503", f"a connection was closed without an answer: {answer!r}"
        assert "retry-after: 1" in answer.lower()


@pytest.mark.slow("150 streams come to a server that serves 14 at once")
async def test_a_burst_beyond_the_files_of_the_process_is_answered(port: int) -> None:
    answers: Counter[str] = Counter()
    async with asyncio.timeout(60):
        await asyncio.gather(*[answered(port, answers) for _ in range(STREAMS)])
    assert answers["200"] == STREAMS
    assert answers["503"]
