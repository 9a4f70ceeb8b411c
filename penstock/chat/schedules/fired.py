"""How a schedule shapes its tasks: labels, skills, and waits for people."""

from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.core.call_errors import NotPermitted
from penstock.core.envelope import ErrorDetail
from penstock.core.events.schedule_events import ScheduleFired
from penstock.engine.task_state import TaskState
from penstock.tools.skills import SkillChoice

SUSPENSION_TIMEOUT = "SUSPENSION_TIMEOUT"


def skill_choice_of(agent: Agent, fired: ScheduleFired) -> SkillChoice:
    """Return the skills that an agent may select in a task that a schedule started.

    Raises NotPermitted if the agent lacks a label that the schedule requires.
    """
    choice = agent.settings.skill_choice
    missing = [each for each in fired.required_labels if each not in choice.labels]
    if missing:
        names, schedule = ", ".join(map(repr, missing)), fired.name or fired.schedule_id
        raise NotPermitted(
            f"the schedule {schedule!r} requires the labels {names}, which agent "
            f"{agent.name!r} does not have; add them to the agent, or change the schedule"
        )
    return replace(choice, preselected=()) if fired.skips_preselected else choice


def overdue(task: TaskState) -> ErrorDetail:
    """Return the error of a task in which no person answered for the second time."""
    seconds = None if task.fired is None else task.fired.suspension_seconds
    message = f"two questions of this task were not answered within {seconds} seconds each"
    return ErrorDetail(code=SUSPENSION_TIMEOUT, message=message, continuable=False)
