"""`penstock models`."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
TABLE: dict[str, Any] = {
    "version": 1,
    "date": "2027-01-31",
    "source": "mine",
    "models": {
        "anthropic:claude-opus-5-5": {
            "match": ["claude-opus-5-5"],
            "input": [[0, 3], [100_000, 6]],
            "output": 9,
        }
    },
}
NAME = "anthropic:claude-opus-5-5"


@pytest.fixture(autouse=True)
def of_opus(project: Path) -> None:
    """The project's model is one of the table, and needs a key that is not there."""
    text = f'[models]\ndefault = "{NAME}"\n\n[models.mine]\nprovider = "ollama"\nimages = true\n'
    (project / "penstock.toml").write_text(f'data_dir = "kept"\n{text}input_price = 0.5\n')


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of the user."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    return folder


def test_models_are_listed_with_their_prices_and_the_date_of_the_table(run: Run) -> None:
    code, out, err = run("models")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["model", NAME, "mine", "offline"]
    prices = ["1000000", "4", "20", "0.2", "5", "/", "8"]
    assert out.splitlines()[1].split() == [NAME, "anthropic", *prices]
    assert out.splitlines()[2].split() == ["mine", "openai", "0.5"]
    assert err == (
        f"The default is {NAME}. Prices of 2026-11-22, from the table that ships with penstock.\n"
    )


def test_the_wire_of_each_model_is_listed(run: Run) -> None:
    _, out, _ = run("models", "--all")
    for wanted in (
        "anthropic:claude-haiku-5-5 +anthropic ",
        "deepseek:deepseek-v3.2 +openai ",
        "google:gemini-2.5-pro +Pydantic AI ",
        "openai:gpt-4o +openai ",
    ):
        assert re.search(f"^{wanted}", out, re.MULTILINE), wanted


def test_unknown_prices_are_null(run_json: Callable[..., Any]) -> None:
    found = run_json("models")
    assert (found["default"], found["prices"]["file"]) == (NAME, None)
    opus, mine, offline = found["models"]
    assert (opus["prices"]["cacheWriteLong"], opus["capabilities"]["bindsThinking"]) == (8, True)
    assert (mine["prices"]["input"], mine["prices"]["output"]) == (0.5, None)
    assert mine["capabilities"]["images"]
    assert set(offline["prices"].values()) == {None}


def test_every_model_of_the_table(run_json: Callable[..., Any]) -> None:
    listed = run_json("models", "--all")["models"]
    assert len(listed) > 200
    tiers = next(each for each in listed if each["id"] == "anthropic:claude-haiku-5-5")["prices"]
    assert tiers["input"] == [[0, 0.1], [100_000, 0.5]]


@pytest.mark.parametrize("for_user", [False, True])
def test_a_newer_table_is_used_until_the_reset(
    run: Run, project: Path, home: Path, tmp_path: Path, for_user: bool
) -> None:
    file = tmp_path / "new.json"
    file.write_text(json.dumps(TABLE))
    where = ("--user",) if for_user else ()
    place = (home / "penstock" if for_user else project / "kept") / "prices.json"
    assert run("models", "update", str(file), *where) == (
        0,
        f"{place}: 1 model, prices of 2027-01-31\n",
        "",
    )
    _, out, err = run("models")
    assert out.splitlines()[1].split()[2:7] == ["3", "(6", "above", "100,000)", "9"]
    assert f"Prices of 2027-01-31, from {place}." in err
    assert run("models", "reset", *where)[0] == 0
    assert "from the table that ships" in run("models")[2]


def test_a_table_that_is_older_than_the_shipped_one_is_pointed_out(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "old.json"
    file.write_text(json.dumps({**TABLE, "date": "2020-01-01"}))
    run("models", "update", str(file))
    assert "Run `penstock models reset` to use it." in run("models")[2]


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "is not JSON"), ("{}", "version must be 1, found None"), (None, "cannot be read")],
)
def test_a_broken_table_changes_nothing(
    run: Run, tmp_path: Path, content: str | None, message: str
) -> None:
    file = tmp_path / "new.json"
    if content is not None:
        file.write_text(content)
    code, _, err = run("models", "update", str(file))
    assert (code, message in err) == (1, True)
    assert "2026-11-22" in run("models")[2]


def test_a_folder_that_cannot_be_written_is_reported(
    run: Run, project: Path, tmp_path: Path
) -> None:
    file = tmp_path / "new.json"
    file.write_text(json.dumps(TABLE))
    (project / "kept").write_text("a file in its place")
    code, _, err = run("models", "update", str(file))
    assert (code, "cannot be written" in err) == (1, True)


def test_a_fallback_is_listed_with_its_models(
    run: Run, run_json: Callable[..., Any], project: Path
) -> None:
    """Without a key of one of them, too; its prices are the highest."""
    file = project / "penstock.toml"
    entry = f'[models.careful]\nmodels = ["mine", "{NAME}"]\non = ["ModelRefused"]\n'
    file.write_text(file.read_text() + entry)
    _, out, err = run("models")
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        NAME,
        "careful",
        "mine",
        "offline",
    ]
    assert out.splitlines()[2].split()[:2] == ["careful", "Fallback"]
    assert f"careful asks mine, then {NAME}.\n" in err
    (found,) = [each for each in run_json("models")["models"] if each["id"] == "careful"]
    assert (found["models"], found["on"]) == (["mine", NAME], ["ModelRefused"])
    assert (found["contextTokens"], found["capabilities"]["images"]) == (1_000_000, True)
