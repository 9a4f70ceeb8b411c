"""`penstock flow generate NAME`: handler templates (section 7.9)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.flow_server import LOOK, laid
from tests.kit.flows import HEAD

pytestmark = pytest.mark.slow("opens a project for each command")
Run = Callable[..., tuple[int, str, str]]
COUNT = "  - {id: count, type: code, outputs: [{name: n, type: number}]}\n"
FLOW = HEAD + "steps:\n" + COUNT + COUNT.replace("count", "more")
FIRST, SECOND = (f"flows/handlers/sums/{name}.ts.default" for name in ("count", "more"))


@pytest.fixture
def flows(project: Path) -> Path:
    return laid(project, {"sums.yaml": FLOW, "look.yaml": LOOK, "bad.yaml": "steps: 5\n"})


def test_a_template_is_written_for_each_step_without_a_module(flows: Path, run: Run) -> None:
    """`penstock flow generate` writes `ID.ts.default`."""
    code, out, _ = run("flow", "generate", "/sums")
    assert code == 0
    assert (
        out
        == f"wrote {FIRST}\nwrote {SECOND}\nedit each file, then remove .default from its name\n"
    )
    assert "n: number;" in (flows / FIRST).read_text()
    (flows / FIRST).rename(flows / FIRST.removesuffix(".default"))
    code, out, _ = run("flow", "check", "sums")
    assert (code, out.count("handler-missing")) == (0, 1)


def test_existing_files_are_kept(flows: Path, run: Run, run_json: Callable[..., Any]) -> None:
    run("flow", "generate", "sums")
    (flows / FIRST).write_text("mine")
    assert run("flow", "generate", "sums")[1] == f"kept {FIRST}\nkept {SECOND}\n"
    assert (flows / FIRST).read_text() == "mine"
    found = run_json("flow", "generate", "sums")
    assert found == {"written": [], "kept": [FIRST, SECOND], "dryRun": False}
    for name in (FIRST, SECOND):
        (flows / name).rename(flows / name.removesuffix(".default"))
    assert run("flow", "generate", "sums")[1] == "nothing is missing\n"


def test_a_dry_run_prints_what_would_be_written(
    flows: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    out = run("flow", "generate", "sums", "--dry-run")[1]
    assert out == f"would write {FIRST}\nwould write {SECOND}\n"
    found = run_json("flow", "generate", "sums", "--dry-run")
    assert found == {"written": [FIRST, SECOND], "kept": [], "dryRun": True}
    assert not (flows / "flows/handlers").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("suns", "Did you mean 'sums'?"),
        ("bad", "penstock flow check bad"),
        ("flows:new", "comes from a built-in flow"),
    ],
)
def test_a_flow_that_has_none_to_write(flows: Path, run: Run, name: str, said: str) -> None:
    code, out, told = run("flow", "generate", name)
    assert (code != 0, out) == (True, "")
    assert said in told


def test_nothing_is_written_outside_of_the_project(flows: Path, run: Run, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (flows / "flows/handlers").symlink_to(outside)
    code, _, told = run("flow", "generate", "sums")
    assert code != 0
    assert "is outside the project" in told
    assert list(outside.iterdir()) == []


def test_a_name_that_cannot_be_a_file_is_reported(flows: Path, run: Run) -> None:
    step = f"  - {{id: long, type: code, target: {'x' * 300}.ts}}\n"
    (flows / "flows/sums.yaml").write_text(HEAD + "steps:\n" + step)
    code, _, told = run("flow", "generate", "sums")
    assert code != 0
    assert "its name is too long" in told
