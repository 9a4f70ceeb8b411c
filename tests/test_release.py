"""Checks of a release that need no build: version, changelog, metadata, workflow."""

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
from trove_classifiers import classifiers
from yaml import safe_load

import penstock
from penstock.cli.main import main

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GITHUB = ROOT / ".github"


def test_the_version_is_in_one_place_and_the_command_prints_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert metadata("penstock")["Version"] == penstock.__version__
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"penstock {penstock.__version__} (Python ")


def test_the_changelog_begins_with_the_version_or_unreleased_changes() -> None:
    """`0.2.0` has its heading with a date; what comes before it, `0.2.0.dev0`, is Unreleased."""
    first = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    released = rf"{re.escape(penstock.__version__)} - \d{{4}}-\d{{2}}-\d{{2}}"
    wanted = "Unreleased" if penstock.__version__.endswith(".dev0") else released
    assert re.fullmatch(wanted, first)


def test_the_package_has_the_metadata_of_a_package_index() -> None:
    assert set(PROJECT["classifiers"]) <= set(classifiers)
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (ROOT / "penstock/py.typed").exists()
    assert PROJECT["keywords"] == sorted(PROJECT["keywords"])
    assert (ROOT / PROJECT["readme"]).exists()
    assert (ROOT / PROJECT["license-files"][0]).exists()
    urls = PROJECT.get("urls", {})
    assert all(each.startswith("https://") for each in urls.values())


def test_ci_runs_the_one_script_on_every_supported_python() -> None:
    job = workflow()["jobs"]["run"]
    prefix = "Programming Language :: Python :: 3."
    promised = [
        f"3.{each.removeprefix(prefix)}" for each in PROJECT["classifiers"] if prefix in each
    ]
    assert job["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands[-1] == ".ci/run"
    assert all(each.startswith("sudo sysctl ") for each in commands[:-1])


def test_ci_has_read_permission_only_and_pins_its_actions() -> None:
    text = (GITHUB / "workflows/ci.yml").read_text()
    actions = re.findall(r"uses: (.+)", text)
    assert actions
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", each) for each in actions)
    assert workflow()["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow()["jobs"]["run"]
    assert "secrets." not in text


@pytest.mark.parametrize("name", ["bug", "proposal"])
def test_an_issue_form_has_the_required_fields(name: str) -> None:
    form = safe_load((GITHUB / f"ISSUE_TEMPLATE/{name}.yml").read_text())
    assert form.keys() == {"name", "description", "labels", "body"}
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    ids = [each["id"] for each in fields]
    assert len(set(ids)) == len(ids)
    assert all(each["attributes"].keys() >= {"label", "description"} for each in fields)
    assert any(each.get("validations", {}).get("required") for each in fields)


def workflow() -> dict[Any, Any]:
    """Return the workflow as it is read."""
    read: dict[Any, Any] = safe_load((GITHUB / "workflows/ci.yml").read_text())
    return read
