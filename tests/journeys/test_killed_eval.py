"""`penstock eval`, and a program that evaluates, killed by the operating system at half."""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.cli.authoring.init import init
from tests.kit.model_server import Canned, FakeServer, delta, events, fake_server

pytestmark = pytest.mark.programs
MODEL = """
[models.local]
provider = "openai"
model = "tiny"
base_url = "{url}"
"""
CASES = "scorers: [{{contains: Fine}}]\ncases:\n{cases}"
PROGRAM = """
from penstock import Agent
from penstock.evals import Dataset, evaluate_sync

clerk = Agent("clerk", model="local", tools=[])
report = evaluate_sync(Dataset.from_file("cases.yaml"), agent=clerk, concurrency={concurrency})
print(report.to_json().decode())
"""
NUMBER, FINISHED, IN_FLIGHT = 8, 3, 2


@pytest.mark.slow("starts two processes")
@pytest.mark.parametrize("is_program", [False, True])
async def test_a_killed_run_goes_on_and_asks_no_finished_case_again(
    tmp_path: Path, *, is_program: bool
) -> None:
    fine, hangs = Canned(events(delta(content="Fine."), delta("stop"))), Canned(hang=True)
    answers = [fine] * FINISHED + [hangs] * IN_FLIGHT + [fine] * NUMBER
    async with fake_server(*answers) as server:
        file = project(tmp_path, server)
        first = await started(file, is_program=is_program)
        while len(server.bodies) < FINISHED + IN_FLIGHT:
            assert first.returncode is None
            await asyncio.wait({asyncio.create_task(first.wait())}, timeout=0.05)
        first.kill()
        await first.wait()
        before = asked(server)
        second = await started(file, is_program=is_program)
        out, err = await second.communicate()
    assert second.returncode == 0, err.decode()
    assert is_program or "was cut and continues" in err.decode()
    report = json.loads(out)
    assert [each["passed"] for each in report["attempts"]] == [True] * NUMBER
    times = asked(server)
    assert sum(before.values()) == FINISHED + IN_FLIGHT
    assert sorted(times.values()) == [1] * (NUMBER - IN_FLIGHT) + [2] * IN_FLIGHT


def project(folder: Path, server: FakeServer) -> Path:
    """Make a project that asks the server, and a file of cases in it."""
    init(folder)
    with (folder / "penstock.toml").open("a") as settings:
        settings.write(MODEL.format(url=server.url))
    lines = [f"  - {{name: case {number}, input: Question {number}}}\n" for number in range(NUMBER)]
    file = folder / "cases.yaml"
    file.write_text(CASES.format(cases="".join(lines)))
    return file


async def started(file: Path, *, is_program: bool) -> asyncio.subprocess.Process:
    """Start `penstock eval` on the file, or a program that evaluates an agent of its own."""
    options = ("--project", str(file.parent), "--model", "local", "--concurrency", str(IN_FLIGHT))
    words: tuple[str, ...] = ("-m", "penstock", "eval", str(file), "--json", *options)
    if is_program:
        words = ("-c", PROGRAM.format(concurrency=IN_FLIGHT))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, *words),
        cwd=file.parent,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def asked(server: FakeServer) -> Counter[str]:
    """Return how often the server was asked each question."""
    return Counter(body["messages"][-1]["content"] for body in server.bodies)
