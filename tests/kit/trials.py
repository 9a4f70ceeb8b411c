"""Calls a tool in one line."""

from collections.abc import Mapping
from typing import Any

from penstock.app.runtime import outcome_of
from penstock.app.trial.mocks import Mocks
from penstock.app.trial.trial import TrialPlan, load_for_trial, open_trial
from penstock.chat.requests import NewCall
from penstock.core.envelope import Envelope
from tests.kit.project import ProjectFolder


async def tried(
    project: ProjectFolder,
    tool_id: str,
    arguments: Mapping[str, Any],
    mocks: Mocks,
    *,
    keeps: bool = False,
) -> Envelope:
    """Return the outcome of one call."""
    settings, loaded = load_for_trial(project.root, mocks.runtime_config)
    plan = TrialPlan(tool_id=tool_id, mocks=mocks, keeps=keeps)
    async with open_trial(settings, loaded, plan) as trial:
        call = NewCall(tool_id=tool_id, input=dict(arguments))
        await trial.runtime.start_call(call, task_id=trial.task_id)
        reply = await trial.runtime.requests.wait(trial.task_id)
    assert reply
    return outcome_of(reply)
