"""A script with an approval, a write and a change: killed at every point, each happens once."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.harness import Moment, Nursery, Server, Talk, effects, events
from tests.kit.project import ProjectFolder

ERRAND = "Run the errand."
ORDER = """
    const list = { scope_kind: "shared", key: "n.list" } as const;
    export async function run() {
      console.log("begun");
      const [guarded, inner, put] = await Promise.all([
        flo.callTool({ tool_id: "guarded", input: {} }),
        flo.callTool({ tool_id: "inner", input: { number: 1 } }),
        flo.state.append({ ...list, item: 1 }),
      ]);
      const kept = (await flo.state.get<number[]>(list))?.value;
      return { guarded: guarded.status, inner: inner.status, put: put.ok, kept };
    }
"""
STATE = "[{name: n, key_prefix: n., scope_kind: shared, scope_id: all}]"


@pytest.fixture
def nursery(machine_code: Path) -> Iterator[Nursery]:
    """Where servers come from."""
    opened = Nursery(cache_dir=str(machine_code))
    yield opened
    opened.close()


def place_of(directory: Path, cache: Path) -> Path:
    """Return a project of its own."""
    directory.mkdir()
    ProjectFolder(directory, cache).tool("order", ORDER, state=STATE)
    return directory


def moments_of(nursery: Nursery, directory: Path) -> list[Moment]:
    """Run the conversation once without a crash, and list the moments it has."""
    with nursery.start(directory, None, signal.SIGKILL) as server:
        talk = Talk(content=ERRAND)
        talk.go_on(server)
        assert talk.is_over
        assert check(talk, server, directory) == "each once"
    lines = (line.split(" ", 2) for line in (directory / "moments").read_text().splitlines())
    return [Moment(kind, int(number), label) for kind, number, label in lines]


def check(talk: Talk, server: Server, directory: Path) -> str:
    """Each effect once, or reported as interrupted; the change exactly once; no line twice."""
    happened = Counter(effects(directory))
    told = events(talk, server)
    (order,) = [each for each in told if _is_outcome(each, "order")]
    output: dict[str, Any] = order["body"]["envelope"]["output"]
    assert (output["put"], output["kept"]) == (True, [1])
    assert max(happened.values()) == 1
    cut = {name for name in ("guarded", "inner") if output[name] == "failed"}
    assert {"guarded", "inner 1"} - set(happened) <= {*cut, *(f"{name} 1" for name in cut)}
    printed = [each for each in told if each["body"].get("event_type") == "script.console"]
    assert len(printed) == 1
    return f"cut: {cut}" if cut else "each once"


@pytest.mark.slow("some twenty conversations, each over a crash of a real process")
def test_every_moment_of_a_script_is_survived(
    nursery: Nursery, tmp_path: Path, machine_code: Path
) -> None:
    """SIGKILL before and after the answer, at every commit and after every effect."""
    outcomes = Counter[str]()
    for moment in moments_of(nursery, place_of(tmp_path / "quiet", machine_code)):
        directory = place_of(tmp_path / f"{moment.kind}-{moment.number}", machine_code)
        talk = Talk(content=ERRAND)
        with nursery.start(directory, moment, signal.SIGKILL) as first:
            talk.go_on(first)
        with nursery.start(directory, None, signal.SIGKILL) as second:
            talk.go_on(second)
            assert talk.is_over, f"{moment} was never reached again"
            outcomes[check(talk, second, directory)] += 1
    assert outcomes["each once"] >= 8


def _is_outcome(event: dict[str, Any], tool_id: str) -> bool:
    return bool(event["kind"] == "call_settled" and event["body"]["tool_id"] == tool_id)
