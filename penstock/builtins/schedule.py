"""`create_schedule` and `get_schedule_info`: schedules that a model creates and looks at.

A call that runs again after a crash finds the schedule that it created, because the id follows from
the call. Tasks of the schedule run for the profile of the call, with its permissions. Secrets of
the calling task are redacted from what is stored. Shown by tests/builtins/test_schedule.py.
"""

from typing import Any

from penstock.core.call import Effect
from penstock.core.call_errors import ToolFailed, ToolNotConfigured
from penstock.core.envelope import Json
from penstock.core.errors import InvalidRequest, NotFound
from penstock.core.ids import ASSISTANT
from penstock.core.json_values.schema import Problem
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import TEXT, fields_of
from penstock.tools.resources import ScheduleCalls, ScheduleRequest
from penstock.tools.spec import ToolSpec

CREATE, INFO = "create_schedule", "get_schedule_info"
SECONDS = 5
_FIELDS = {"cron_expression": "cron", "callback_id": "workflowId", "input/content": "message"}
"""The members of the input that errors mean, where their names differ."""


class CreateSchedule:
    """Creates a schedule that runs a workflow, or sends a message to the agent at each due time."""

    spec = ToolSpec(
        tool_id=CREATE,
        description=(
            "Start something at fixed times: a workflow, or a message to yourself in this "
            "conversation. Give workflowId or message. Returns the schedule with its next times."
        ),
        input_schema=fields_of(
            {
                "name": {"type": "string", "minLength": 1, "maxLength": 200},
                "cron": {
                    "type": "string",
                    "maxLength": 100,
                    "description": "Five fields, such as 0 9 * * MON-FRI, or @daily",
                },
                "workflowId?": {"type": "string", "minLength": 1},
                "message?": {"type": "string", "minLength": 1, "maxLength": 100_000},
                "input?": {
                    "type": "object",
                    "default": {},
                    "description": "Inputs of the workflow; task: its task in words",
                },
                "timezone?": {
                    "type": "string",
                    "description": "Such as Europe/Berlin; else that of the agent",
                },
            }
        ),
        effect=Effect.WRITE,
        idempotent=True,
        timeout_ms=1000 * SECONDS,
    )

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the schedule."""
        given = invocation.caller.secrets.json(dict(input))
        if ("workflowId" in given) == ("message" in given):
            found = "both" if "message" in given else "neither"
            raise invalid(
                CREATE, [Problem("/workflowId", f"or /message is required; found {found}")]
            )
        state = invocation.ledger.held.state
        request = ScheduleRequest(
            schedule_id=f"sched_{invocation.idempotency_key}",
            agent=state.agents.newest or ASSISTANT,
            profile=invocation.caller.profile,
            session_id=None if state.opened is None else state.log_id,
            given=given,
        )
        try:
            return await _schedules(invocation).create_by_call(request)
        except InvalidRequest as error:
            raise invalid(CREATE, [_problem(each) for each in error.problems]) from None
        except NotFound as error:
            raise ToolFailed(str(error), "NOT_FOUND") from None

    def preview(self, output: Any) -> str | None:
        """Return the name and the next due time."""
        return f"{output['name']}: next {output['nextRun']}"


class ScheduleLookup:
    """Returns one schedule of the agent, or those that are due next."""

    spec = ToolSpec(
        tool_id=INFO,
        description=(
            "Look at a schedule by its id: when it runs next, when it ran last, and how that "
            "ended. Without an id: the schedules of this agent, at most 50, next run first."
        ),
        input_schema=fields_of({"scheduleId?": TEXT}),
        effect=Effect.READ,
        timeout_ms=1000 * SECONDS,
    )

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the schedule, or a list of them."""
        agent = invocation.ledger.held.state.agents.newest or ASSISTANT
        try:
            profile, schedule_id = invocation.caller.profile, input.get("scheduleId")
            return await _schedules(invocation).info_for_call(schedule_id, agent, profile)
        except NotFound as error:
            raise ToolFailed(str(error), "NOT_FOUND") from None

    def preview(self, output: Any) -> str | None:
        """Return the name and the next due time; of a list its length."""
        if "results" in output:
            return f"{len(output['results'])} schedules"
        return f"{output['name']}: next {output['nextRun']}"


def _schedules(invocation: Invocation) -> ScheduleCalls:
    find = invocation.edition.resources.callbacks.schedules
    if find is None:
        raise ToolNotConfigured('there are no schedules here: open a project, penstock.open(".")')
    return find()


def _problem(problem: Any) -> Problem:
    name = problem["field"].removeprefix("/")
    return Problem(f"/{_FIELDS.get(name, name)}", problem["issue"])


TOOLS = (ScheduleLookup(), CreateSchedule())
