"""A flow with every kind of step: killed at every moment, it ends like one that was not killed."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.chaos.harness import CLOCK, PATIENCE, Moment, Nursery, Server, wait_until

AGENT = "---\nname: {name}\ndescription: Works.\ntools: {tools}\n---\nYou work.\n"
FLOW = """\
name: demo
description: Every kind of step.
steps:
  - {id: look, agent: scout, task: look}
  - {id: other, agent: writes, task: other}
  - {id: draft, agent: scout, blockedBy: [look, other], task: "draft ${{loop.again.iteration}}"}
  - {id: again, agent: scout, task: again, loop_target: draft, exit_target: ask, max_iterations: 1}
  - {id: ask, question: "Go?", branches: {Go: make, Stop: touch}}
  - {id: make, command: "echo once >> made; echo made", on_error: touch}
  - {id: touch, command: "echo again >> touched; echo touched", idempotent: true}
  - {id: count, type: code, tools: [inner], outputs: [inner]}
  - {id: part, path: sub.yaml}
  - {id: report, agent: scout, task: "${{result.part.tell.summary}} ${{result.count.inner}}"}
"""
SUB = """\
name: sub
description: Inside.
steps:
  - {id: tell, agent: scout, task: tell}
  - {id: choose, check: tell.summary, present: last, absent: last}
  - {id: last, agent: scout, task: last}
"""
COUNT = """\
export default async () => {
  const { status } = await flo.callTool({ tool_id: "inner", input: { number: 1 } });
  return { inner: status };
};
"""
FILES = {
    "flows/demo.yaml": FLOW,
    "flows/sub.yaml": SUB,
    "flows/handlers/demo/count.js": COUNT,
    "agents/scout.md": AGENT.format(name="scout", tools=""),
    "agents/writes.md": AGENT.format(name="writes", tools="write"),
}
RUNS = "/flows/demo/runs"
OVER = {"success", "error", "aborted", "rejected"}


@pytest.fixture
def nursery(machine_code: Path) -> Iterator[Nursery]:
    """Where servers come from."""
    opened = Nursery(
        cache_dir=str(machine_code),
        models={"default": "scripted"},
        flows={"shell": True, "shell_sandbox": "off"},
    )
    yield opened
    opened.close()


def place_of(directory: Path) -> Path:
    """Return a project of its own."""
    for name, text in FILES.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return directory


def go_on(server: Server) -> dict[str, Any] | None:
    """Start the run unless it was started, and answer it; its result, or None if it was cut."""
    ends = CLOCK.monotonic() + PATIENCE
    while not server.is_gone:
        assert CLOCK.monotonic() < ends, "the run stands still"
        try:
            key = {"Idempotency-Key": "the only one"}
            started = server.client.post(RUNS, json={"task": "t"}, headers=key)
            assert started.status_code == 202, started.text
            run = server.client.get(f"{RUNS}/{started.json()['runId']}").json()
            if run["status"] in OVER:
                return dict(run)
            for each in run["questions"]:
                answer = {"value": "Go"}
                server.client.post(f"/questions/{each['id']}/answer", json=answer)
        except httpx2.TransportError:
            continue
    return None


def starts_of(server: Server, run_id: str) -> Counter[str]:
    """Return how often each visit was started."""
    found: Counter[str] = Counter()
    after, more = 0, True
    while more:
        query = {"limit": 200, "after": after}
        events = server.client.get(f"/tasks/{run_id}/events", params=query).json()["events"]
        found.update(each["path"] for each in events if each["kind"] == "step_started")
        more = bool(events) and events[-1]["seq"] > after
        after = events[-1]["seq"] if events else after
    return Counter({path.removeprefix(run_id): count for path, count in found.items()})


def check(run: dict[str, Any], directory: Path) -> str:
    """The run has succeeded; each write happened once, or was reported as cut."""
    assert run["status"] == "success", run
    results = run["result"]["results"]
    left = {name: each["status"] for name, each in results.items()}
    make = left.pop("make")
    assert set(left.values()) == {"complete"}, left
    assert results["draft"]["visits"] == 2
    assert run["result"]["forks"]["ask"]["answer"] == "Go"
    made, touched = lines(directory / "made"), lines(directory / "touched")
    assert len(made) <= 1 <= len(touched)
    if make == "error":
        assert "process" in results["make"]["summary"]
    else:
        assert made == ["once"]
    effects = Counter(lines(directory / "effects"))
    assert set(effects.values()) <= {1}
    if "inner 1" not in effects:
        assert results["count"]["inner"] == "failed"
    return "each once" if make == "complete" and effects else "cut"


def lines(file: Path) -> list[str]:
    """Return the lines of a file; none if it is not there."""
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.slow("some fifty runs, each over a crash of a real process", seconds=300)
def test_every_moment_of_a_flow_is_survived(nursery: Nursery, tmp_path: Path) -> None:
    """Every resumed run ends as the uninterrupted one, with the same starts (section 17)."""
    quiet = place_of(tmp_path / "quiet")
    with nursery.start(quiet, None, signal.SIGKILL) as server:
        run = go_on(server)
        assert run is not None
        assert check(run, quiet) == "each once"
        starts = starts_of(server, run["runId"])
    assert set(starts.values()) == {1}
    assert {"/part/1/tell/1", "/draft/2", "/again/2"} <= set(starts)
    outcomes = Counter[str]()
    for line in lines(quiet / "moments"):
        kind, number, label = line.split(" ", 2)
        moment = Moment(kind, int(number), label)
        directory = place_of(tmp_path / f"{kind}-{number}")
        with nursery.start(directory, moment, signal.SIGKILL) as first:
            assert go_on(first) is None, f"{moment} was never reached again"
            wait_until(lambda server=first: server.is_gone, "the server to die")
        with nursery.start(directory, None, signal.SIGKILL) as second:
            run = go_on(second)
            assert run is not None, moment
            outcomes[check(run, directory)] += 1
            assert starts_of(second, run["runId"]) == starts, moment
    assert outcomes["each once"] > outcomes["cut"] > 0
