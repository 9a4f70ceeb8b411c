"""The examples of docs/scripts/code-steps.md, run as written."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.cli.authoring.init import init
from penstock.cli.main import main

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.slow("opens a store and enters scripts for each command"),
]
PAGE = (Path(penstock.__file__).parents[1] / "docs/scripts/code-steps.md").read_text("utf-8")
FLOW, PRICE, WAY = re.findall(r"^```(?:yaml|typescript)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
Say = Callable[..., tuple[int, str]]


@pytest.fixture
def say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command in the project of the page; returns its exit code, and what it printed."""
    init(tmp_path)
    files = {"shipping.yaml": FLOW, "handlers/shipping/price.ts": PRICE}
    for name, text in (files | {"handlers/shipping/way.ts": WAY}).items():
        (tmp_path / "flows" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "flows" / name).write_text(text)

    def say(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main([*arguments, "--project", str(tmp_path)])
        return code, capsys.readouterr().out

    return say


def run(say: Say, weight: float) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(
        say("flow", "run", "shipping", "--input", f"weight={weight}", "--json")[1]
    )
    return result


def test_the_flow_of_the_page_has_no_findings(say: Say) -> None:
    assert say("flow", "check", "shipping", "--strict")[0] == 0


@pytest.mark.parametrize(("weight", "cents", "way"), [(3, 860, "post"), (30, 4100, "freight")])
def test_the_flow_of_the_page_prices_and_chooses(
    say: Say, weight: float, cents: int, way: str
) -> None:
    results = run(say, weight)["results"]
    assert results["price"]["outputs"] == {"cents": cents}
    assert results["price"]["summary"] == f"It costs {cents / 100:g}."
    assert results[way]["status"] == "complete"


def test_a_hard_error_ends_the_flow(say: Say) -> None:
    result = run(say, 2000)
    assert (result["status"], result["results"]["price"]["status"]) == ("error", "error")
    assert "too heavy for any carrier" in result["reason"]


def test_drafts_are_written_for_missing_modules(say: Say, tmp_path: Path) -> None:
    (tmp_path / "flows/handlers/shipping/price.ts").unlink()
    assert "handler-missing" in say("flow", "check", "shipping")[1]
    assert say("flow", "generate", "shipping")[0] == 0
    draft = (tmp_path / "flows/handlers/shipping/price.ts.default").read_text()
    assert "cents: number;" in draft
