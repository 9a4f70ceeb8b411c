"""The version and what is installed."""

import json

import pytest

from penstock.cli.main import main


def test_the_version_is_printed_for_people_and_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("penstock 0.")
    assert main(["version", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"penstock", "python"}
