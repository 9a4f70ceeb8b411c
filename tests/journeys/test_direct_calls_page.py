"""Every command line of the page on direct calls runs, against a new project."""

import json
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import penstock
from penstock.app.runtime import Runtime
from penstock.cli.authoring.init import init
from tests.kit.listener import in_a_thread

PAGE = Path(penstock.__file__).parents[1] / "docs" / "direct-calls.md"
COMMAND = re.compile(r"^```sh\n(.*?)^```\n(?:```json\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


@pytest.mark.programs
@pytest.mark.slow(reason="starts a server, and a process for each example")
def test_every_command_of_the_page_runs(tmp_path: Path) -> None:
    init(tmp_path)

    @asynccontextmanager
    async def new_project() -> AsyncIterator[Runtime]:
        async with penstock.open(tmp_path) as runtime:
            yield runtime

    commands = COMMAND.findall(PAGE.read_text(encoding="utf-8"))
    assert len(commands) == 3
    with in_a_thread(new_project) as url:
        for line, expected in commands:
            here = line.replace("http://localhost:8000", url)
            ran = subprocess.run(
                ["/bin/sh", "-c", here], capture_output=True, check=True, timeout=20
            )
            loads = json.loads(ran.stdout)
            if expected:
                assert loads | {"taskId": ""} == json.loads(expected) | {"taskId": ""}
            elif "-d" in line:
                (problem,) = loads["error"]["details"]["problems"]
                assert problem == {"path": "/name", "message": "is required"}
            else:
                assert loads["toolId"] == "hello"
