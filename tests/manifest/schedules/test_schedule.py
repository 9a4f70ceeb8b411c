"""`*.schedule.yaml`."""

from pathlib import Path
from typing import Any

import pytest

from penstock.manifest.schedules.schedule import SuspensionTimeout, check_agents
from tests.kit.manifests import findings, load, skill

START = """
schedule_id: morning
user_message: What is new?
timezone: Europe/Berlin
"""
CRON = START + "cron_expression: 0 8 * * MON-FRI\n"
FULL = (
    CRON
    + """
profile_channel: telegram
profile_external_user_id: "42"
context: {region: EU}
target_agent_override: scout
required_labels: [press]
selected_skill_ids: [news]
skip_skill_selection: true
enabled: false
concurrency_policy: forbid
suspension_timeout: {seconds: 60, resume_prompt: Go on.}
"""
)


def test_every_field_is_read(tmp_path: Path) -> None:
    files = {"a.schedule.yaml": FULL, "news.skill.yaml": skill(skill_id="news")}
    bundle = load(tmp_path, files)
    assert not bundle.diagnostics
    schedule = bundle.schedules["morning"]
    assert (schedule.cron, schedule.timezone) == ("0 8 * * MON-FRI", "Europe/Berlin")
    assert (schedule.profile_id, schedule.agent) == ("telegram:42", "scout")
    assert (schedule.context, schedule.required_labels) == ({"region": "EU"}, ("press",))
    assert (schedule.selected_skill_ids, schedule.skip_skill_selection) == (("news",), True)
    assert (schedule.enabled, schedule.concurrency) == (False, "forbid")
    assert schedule.suspension_timeout == SuspensionTimeout(seconds=60, resume_prompt="Go on.")


def test_most_fields_have_defaults(tmp_path: Path) -> None:
    schedule = load(tmp_path, {"schedules/a.schedule.yaml": CRON}).schedules["morning"]
    assert (schedule.profile_id, schedule.agent, schedule.context) == (None, "assistant", {})
    assert (schedule.enabled, schedule.concurrency) == (True, "allow")
    assert (schedule.suspension_timeout, schedule.file) == (None, "schedules/a.schedule.yaml")


@pytest.mark.parametrize(
    ("trigger", "cron", "warning"),
    [
        ("{kind: recurring, minutes_interval: 15}", "*/15 * * * *", ""),
        ("{kind: recurring, minutes_interval: 7}", "*/7 * * * *", "uneven-interval"),
        ("{kind: recurring, hours_interval: 6, days_of_week: [1, 5]}", "0 */6 * * 1,5", ""),
        ("{kind: recurring, hours_interval: 5}", "0 */5 * * *", "uneven-interval"),
        (
            "{kind: recurring, times_of_day: [{hour: 18, minute: 30}, {hour: 9, minute: 30}]}",
            "30 9,18 * * *",
            "",
        ),
    ],
)
def test_a_trigger_is_one_cron_line(tmp_path: Path, trigger: str, cron: str, warning: str) -> None:
    bundle = load(tmp_path, {"a.schedule.yaml": f"{START}trigger: {trigger}\n"})
    assert bundle.schedules["morning"].cron == cron
    assert [each.code for each in bundle.diagnostics] == ([warning] if warning else [])


TWICE = "[{hour: 9, minute: 0}, {hour: 9, minute: 0}]"
MIXED = "[{hour: 9, minute: 0}, {hour: 10, minute: 5}]"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (START, ["exactly-one"]),
        (CRON + "trigger: {kind: recurring, hours_interval: 1}\n", ["exactly-one"]),
        (START + "cron_expression: 0 8 31 2 *\n", ["bad-cron"]),
        (START + "cron_expression: [8]\n", ["wrong-type"]),
        (CRON.replace("Europe/Berlin", "Europe/Berln"), ["bad-timezone"]),
        (CRON.replace("morning", "9am"), ["bad-id"]),
        (CRON.replace("user_message: What is new?", ""), ["missing-key"]),
        (CRON + "profile_channel: telegram\n", ["both-or-neither"]),
        (CRON + "context: [1]\n", ["wrong-type"]),
        (CRON + f"context: {{a: {'x' * 33_000}}}\n", ["bad-value"]),
        (CRON + "concurrency_policy: maybe\n", ["bad-value"]),
        (CRON + "suspension_timeout: {seconds: 0, resume_prompt: x}\n", ["bad-value"]),
        (CRON + "selected_skill_ids: [nws]\n", ["unknown-skill-ref"]),
        (CRON + "crn: x\n", ["unknown-key"]),
        (START + "trigger: {kind: once}\n", ["exactly-one", "bad-value"]),
        (START + "trigger: {kind: recurring}\n", ["exactly-one"]),
        (START + "trigger: {kind: recurring, minutes_interval: 0}\n", ["bad-value"]),
        (START + f"trigger: {{kind: recurring, times_of_day: {TWICE}}}\n", ["bad-value"]),
        (START + f"trigger: {{kind: recurring, times_of_day: {MIXED}}}\n", ["mixed-minutes"]),
        (
            START + "trigger: {kind: recurring, hours_interval: 1, days_of_week: [1, 1]}\n",
            ["bad-value"],
        ),
        ("schedule_id: [", ["yaml-syntax"]),
    ],
)
def test_each_mistake_is_found_and_the_schedule_is_not_used(
    tmp_path: Path, text: str, codes: list[str]
) -> None:
    bundle = load(tmp_path, {"a.schedule.yaml": text})
    assert [each.code for each in bundle.diagnostics] == codes
    assert not bundle.schedules
    assert bundle.broken_schedules == {"a.schedule.yaml"}


def test_an_id_that_two_files_have_breaks_both(tmp_path: Path) -> None:
    files = {"a.schedule.yaml": CRON, "b.schedule.yaml": CRON}
    found = findings(tmp_path, files)
    assert len(found) == 2
    assert all("duplicate-schedule" in each for each in found)
    assert all("a.schedule.yaml:2, b.schedule.yaml:2" in each for each in found)


@pytest.mark.parametrize(
    ("agents", "codes"),
    [
        ({"scout": ["press"]}, []),
        ({"scout": None}, []),
        ({"scout": []}, ["labels-not-met"]),
        ({"scuot": ["press"]}, ["unknown-agent"]),
    ],
)
def test_the_agent_exists_and_has_the_labels(
    tmp_path: Path, agents: dict[str, Any], codes: list[str]
) -> None:
    text = CRON + "target_agent_override: scout\nrequired_labels: [press]\n"
    bundle = load(tmp_path, {"a.schedule.yaml": text})
    assert [each.code for each in bundle.check_agents(agents)] == codes
    assert bool(bundle.schedules) == (codes != ["unknown-agent"])
    check_agents([], agents)
