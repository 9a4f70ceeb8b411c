"""The sections about webhooks and retention become what their parts take."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.app.sections.background import RetentionEntry, RetentionSection
from penstock.store.upkeep.rules import KEEP_ALL, RetentionRule


def test_rules_of_retention_become_a_plan() -> None:
    entry = RetentionEntry(of="calls", days=7, status=("failed",), agent="sc*")
    plan = RetentionSection(rules=(entry,), step=5, pause_seconds=0).plan
    rule = RetentionRule(of="calls", days=7, status=frozenset({"failed"}), agent="sc*")
    assert (plan.rules, plan.step, plan.pause_seconds) == ((rule,), 5, 0)


def test_without_a_section_everything_is_kept() -> None:
    assert RetentionSection().plan == KEEP_ALL


@pytest.mark.parametrize("wrong", [{"step": 0}, {"step": 1001}, {"pause_seconds": -1}])
def test_a_step_is_neither_empty_nor_endless(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RetentionSection(**wrong)


@pytest.mark.programs
@pytest.mark.slow("a process that loads the settings")
def test_settings_load_no_database() -> None:
    """Commands that open no database read settings, too: SQLAlchemy takes 150 ms to import."""
    code = "import sys, penstock.app.settings; print('sqlalchemy' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == "False"
