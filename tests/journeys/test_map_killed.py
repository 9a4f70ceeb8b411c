"""A program that maps inputs is killed in the middle; the next one repeats no finished input."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.programs, pytest.mark.slow("starts two programs")]
PROGRAM = """
import os, signal, sys
from pathlib import Path
from penstock import Agent, open_sync
from penstock.testing import ScriptedModel, say

asked, dies = Path("asked.txt"), sys.argv[1] == "dies"

def answer(request):
    text = request.messages[-1].content
    with asked.open("a") as file:
        file.write(text)
    if dies and text == "3":
        os.kill(os.getpid(), signal.SIGKILL)
    return say(text * 2)

clerk = Agent("clerk", model=ScriptedModel(answer))
with open_sync(".", agents=[clerk]) as runtime:
    for reply in runtime.map(list("01234"), agent=clerk, key="monday", concurrency=1):
        print(reply.output)
"""


def test_a_killed_map_continues_with_the_unfinished_inputs(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(how: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "program.py", how],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    killed = run("dies")
    again = run("ends")
    assert killed.returncode == -9, killed.stderr
    assert (again.returncode, again.stdout.split()) == (0, ["00", "11", "22", "33", "44"])
    assert (tmp_path / "asked.txt").read_text() == "012334"
