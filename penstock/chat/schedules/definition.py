"""Schedules as values: what a person asks for, what is stored, and which due time fires next.

A schedule requests a task at due times: a message to an agent, a run of a workflow, or a call of a
tool. `checked` reports every mistake of a new one together. `plan` decides what a look at the clock
finds: the newest due time, if it is at most `limits.schedule_late_seconds` late, starts a task;
older ones are counted as missed. It depends on the row and the time alone, so every process that
looks decides the same. Proof: tests/chat/schedules/test_definition.py.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct, field

from penstock.core.clock import Moment, to_iso
from penstock.core.envelope import Json
from penstock.core.errors import InvalidRequest
from penstock.core.ids import ASSISTANT, ProfileId, ScheduleId, SessionId, TaskId
from penstock.core.json_values.json_text import JSON_DEPTH, is_deeper, is_larger
from penstock.core.late import late
from penstock.core.limits import KIB
from penstock.core.profile import Profile
from penstock.core.task import TaskStatus
from penstock.core.text import cut

NAME_CHARS = 200
MAX_SECONDS = 31_536_000
"""The longest delay and suspension timeout: a year."""
MAX_YEAR = 9999
"""In UTC a later time may be in the year 10000, which no form of a time can show."""
CONTEXT_BYTES = 32 * KIB
NEW, SAME = "new", "same"
"""The conversation of a message: one for each task, or one for all tasks of the schedule."""
NEXT_RUNS = 3
"""How many due times a schedule shows."""
Concurrency = Literal["forbid", "allow"]
CallbackName = Literal["message", "workflow", "function"]


class ScheduleType(StrEnum):
    """When a schedule is due. The values are the wire format."""

    ONCE = "once"
    DELAYED = "delayed"
    CRON = "cron"


class ScheduleStatus(StrEnum):
    """Whether a schedule fires. The values are the wire format."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    """It was due once, and its time has passed."""


class NewSchedule(Struct, frozen=True, kw_only=True):
    """A schedule to create, for `runtime.schedules.create`.

    Give exactly one of `cron`, `at` and `delay_seconds`.

    Example:
        >>> from penstock import NewSchedule
        >>> NewSchedule(
        ...     name="Morning news",
        ...     cron="0 8 * * MON-FRI",
        ...     timezone="Europe/Berlin",
        ...     input={"content": "What is new?", "conversation": "same"},
        ... ).callback_type
        'message'
    """

    name: str
    """The title for people, 1 to 200 characters; two schedules may have the same one."""
    agent: str = ASSISTANT
    """The agent that the schedule belongs to, and that a message goes to."""
    cron: str | None = None
    """Five fields, or a name such as `@daily`: due at every such time."""
    at: datetime | None = None
    """Due once at this time, which has a time zone."""
    delay_seconds: int | None = None
    """Due once so many seconds from now, 1 to 31,536,000."""
    callback_type: CallbackName = "message"
    """A message to the agent, a run of a workflow, or a call of a tool as a function."""
    callback_id: str = ""
    """The agent, the command of the workflow, or the id of the tool; empty: `agent`."""
    input: Json = field(default_factory=dict)
    """Of a message: `content`, and optionally `conversation` (`new`, `same` or an id),
    `selectedSkillIds` and `context`. Of a workflow: its inputs, and its task as `task`. Of a tool:
    its input."""
    timezone: str | None = None
    """The zone of `cron`, such as `Europe/Berlin`; None: `calendar_timezone` of the agent, UTC."""
    concurrency: Concurrency = "forbid"
    """`forbid`: a due time is missed while a task of the schedule has not ended."""
    is_paused: bool = False
    """Whether it starts as paused."""
    suspension_seconds: int | None = None
    """How long a question of a task waits for a person; None means without end."""
    resume_prompt: str = ""
    """The message with which a task continues after such a question was not answered."""


class Schedule(Struct, frozen=True, kw_only=True):
    """A stored schedule, as `runtime.schedules` returns it. Moments are milliseconds since 1970.

    Example:
        >>> import asyncio
        >>> import penstock
        >>> async def main() -> None:
        ...     async with penstock.open(":memory:") as runtime:
        ...         new = penstock.NewSchedule(
        ...             name="News", cron="@daily", input={"content": "What is new?"}
        ...         )
        ...         schedule = await runtime.schedules.create(new)
        ...         print(schedule.type, schedule.status)
        >>> asyncio.run(main())
        cron active
    """

    schedule_id: ScheduleId
    """`sched_…`, or the id in its file."""
    agent: str
    """The agent that it belongs to."""
    name: str
    """Its title for people."""
    type: ScheduleType
    """`once`, `delayed` or `cron`."""
    cron: str | None
    """The cron line; None if it is due once."""
    timezone: str
    """The zone of the cron line."""
    delay_seconds: int | None
    """The delay of a delayed one."""
    callback_type: CallbackName
    """Whether it sends a message, runs a workflow or calls a tool."""
    callback_id: str
    """The agent, the command of the workflow, or the id of the tool."""
    input: Json
    """As in NewSchedule."""
    concurrency: Concurrency
    """Whether its tasks may overlap."""
    options: Json
    """`suspension_timeout`, `required_labels` and `skip_skill_selection`, where they are set."""
    source: str
    """`api`, or `file` for a schedule of the project's folder."""
    profile_id: ProfileId
    """The profile that its tasks run for."""
    permissions: tuple[str, ...] | None
    """The permissions of its tasks; None means all."""
    key_name: str | None = None
    """The API key that made it, or changed what runs; None for programs, files and models."""
    session_id: SessionId | None
    """The conversation of its messages; None if each message begins one."""
    status: ScheduleStatus
    """`active`, `paused` or `completed`."""
    reason: str | None
    """Why it was paused, if the runtime paused it."""
    next_run: Moment | None
    """The next due time; None if it is completed."""
    planned_at: Moment
    """When `next_run` was computed."""
    active_since: Moment
    """Since when failures in a row are counted."""
    last_run: Moment | None
    """When its newest task started."""
    last_task_id: TaskId | None
    """The newest task."""
    last_status: TaskStatus | None
    """The status of the newest task."""
    missed: int
    """How many due times started no task."""
    created_at: Moment
    """When it was created."""
    updated_at: Moment
    """When a person or a program changed it."""

    @property
    def profile(self) -> Profile:
        """The profile that its tasks run for."""
        return Profile.from_noted(self.profile_id, self.permissions)

    @property
    def unknown_zone(self) -> str:
        """Why its time zone is wrong: this machine may know it no more. Empty if it is fine."""
        if self.cron is None:
            return ""
        problem: str = late("penstock.manifest.schedules.cron:check_zone")(self.timezone)
        return problem

    def upcoming(self, count: int = NEXT_RUNS) -> list[Moment]:
        """Return the next due times; none if it is not active.

        Args:
            count: How many, at most.
        """
        if self.status is not ScheduleStatus.ACTIVE or self.next_run is None or count < 1:
            return []
        if self.cron is None or self.unknown_zone:
            return [self.next_run]
        return [self.next_run, *line_of(self).upcoming(self.next_run, count - 1)]

    def to_wire(self) -> dict[str, Any]:
        """Return the form of the HTTP API."""
        return {
            "id": self.schedule_id,
            "name": self.name,
            "agent": self.agent,
            "type": self.type.value,
            "cron_expression": self.cron,
            "timezone": self.timezone,
            "delay_seconds": self.delay_seconds,
            "next_run": _iso(self.next_run),
            "next_runs": [to_iso(each) for each in self.upcoming()],
            "last_run": _iso(self.last_run),
            "callback_type": self.callback_type,
            "callback_id": self.callback_id,
            "input": dict(self.input),
            "conversation_id": self.session_id,
            "concurrency": self.concurrency,
            "suspension_timeout": self.options.get("suspension_timeout"),
            "status": self.status.value,
            "reason": self.reason or self.unknown_zone or None,
            "source": self.source,
            "last_status": None if self.last_status is None else self.last_status.value,
            "last_task_id": self.last_task_id,
            "missed": self.missed,
            "created_at": to_iso(self.created_at),
            "updated_at": to_iso(self.updated_at),
        }


class Tick(Struct, frozen=True, kw_only=True):
    """The next step of a schedule that is due."""

    due_at: Moment | None
    """The due time that starts a task; None if even the newest one is too late."""
    next_run: Moment | None
    missed: int


def plan(schedule: Schedule, now: Moment, late_seconds: float) -> Tick:
    """Return which due time of a schedule fires now. `next_run` must not be in the future.

    Raises KeyError for a time zone that this machine does not know any more.
    """
    first = schedule.next_run or now
    if schedule.cron is None:
        newest, older, following = first, 0, None
    else:
        line = line_of(schedule)
        newest = max(first, line.newest_until(now))
        older, following = line.count(first, newest), line.next_after(now)
    is_late = now - newest > 1000 * late_seconds
    return Tick(
        due_at=None if is_late else newest,
        next_run=following,
        missed=older + is_late,
    )


def first_due(new: NewSchedule, timezone: str, now: Moment) -> Moment:
    """Return the first due time of a valid schedule."""
    if new.at is not None:
        return _moment(new.at)
    if new.delay_seconds is not None:
        return Moment(now + 1000 * new.delay_seconds)
    line = late("penstock.manifest.schedules.cron:CronLine")(new.cron, timezone)
    due: Moment = line.next_after(now)
    return due


def type_of(new: NewSchedule) -> ScheduleType:
    """Return the type of a valid schedule."""
    if new.cron is not None:
        return ScheduleType.CRON
    return ScheduleType.ONCE if new.at is not None else ScheduleType.DELAYED


def line_of(schedule: Schedule) -> Any:
    """Return the cron line of a schedule that has one."""
    return late("penstock.manifest.schedules.cron:CronLine")(schedule.cron, schedule.timezone)


Problems = list[dict[str, str]]
CheckInput = Callable[[NewSchedule], Problems]
"""Reports mistakes in the callback: a name that does not exist, an input that does not fit."""


def check(new: NewSchedule, now: Moment, check_input: CheckInput) -> None:
    """Raise InvalidRequest with every mistake of a new schedule."""
    problems: Problems = []
    if not 1 <= len(new.name.strip()) <= NAME_CHARS:
        problems.append(_problem("/name", f"must have 1 to {NAME_CHARS} characters"))
    problems += _check_time(new, now)
    if new.concurrency not in {"forbid", "allow"}:
        found = cut(str(new.concurrency), 40)
        problems.append(_problem("/concurrency", f"must be forbid or allow, found {found!r}"))
    seconds = new.suspension_seconds
    if seconds is not None:
        problems += _check_suspension(new, seconds)
    if is_deeper(new.input, JSON_DEPTH):
        problems.append(_problem("/input", f"must have at most {JSON_DEPTH} levels of nesting"))
    else:
        problems += check_input(new)
    if problems:
        raise InvalidRequest(problems)


def _check_suspension(new: NewSchedule, seconds: int) -> Problems:
    field_name = "/suspension_timeout"
    if new.callback_type != "message":
        return [_problem(field_name, "is for messages: its resume_prompt is the next message")]
    problems = []
    if not 1 <= seconds <= MAX_SECONDS:
        issue = f"must be 1 to {MAX_SECONDS}, found {seconds}"
        problems.append(_problem(f"{field_name}/seconds", issue))
    if not new.resume_prompt.strip():
        problems.append(_problem(f"{field_name}/resume_prompt", "must not be blank"))
    return problems


def _check_time(new: NewSchedule, now: Moment) -> Problems:
    """Return the mistakes in when the schedule is due."""
    given = [
        name
        for name, value in (
            ("cron_expression", new.cron),
            ("next_run", new.at),
            ("delay_seconds", new.delay_seconds),
        )
        if value is not None
    ]
    problems: Problems = []
    if len(given) != 1:
        names = ", ".join(given) or "none"
        issue = f"give exactly one of cron_expression, next_run and delay_seconds; found {names}"
        problems.append(_problem("/cron_expression", issue))
    if new.cron is not None and (
        reason := late("penstock.manifest.schedules.cron:check")(new.cron)
    ):
        problems.append(_problem("/cron_expression", reason))
    if new.at is not None and new.at.tzinfo is None:
        problems.append(_problem("/next_run", "must have a time zone, such as +01:00 or Z"))
    elif new.at is not None and _moment(new.at) <= now:
        problems.append(_problem("/next_run", f"must be in the future; it is {to_iso(now)} now"))
    elif new.at is not None and new.at.year >= MAX_YEAR:
        problems.append(_problem("/next_run", f"must be before the year {MAX_YEAR}"))
    if new.delay_seconds is not None and not 1 <= new.delay_seconds <= MAX_SECONDS:
        issue = f"must be 1 to {MAX_SECONDS}, found {new.delay_seconds}"
        problems.append(_problem("/delay_seconds", issue))
    check_zone = late("penstock.manifest.schedules.cron:check_zone")
    if new.timezone is not None and (reason := check_zone(new.timezone)):
        problems.append(_problem("/timezone", reason))
    return problems


_MESSAGE_KEYS = ("content", "conversation", "selectedSkillIds", "context")


def check_message(given: Mapping[str, Any], content_chars: int) -> Problems:
    """Return the mistakes in the input of a message."""
    known = ", ".join(_MESSAGE_KEYS)
    problems = [
        _problem(f"/input/{cut(key, 40)}", f"is not known. Known are {known}.")
        for key in given
        if key not in _MESSAGE_KEYS
    ]
    content = given.get("content")
    if not isinstance(content, str) or not content.strip() or len(content) > content_chars:
        issue = f"must be a text of 1 to {content_chars} characters that is not blank"
        problems.append(_problem("/input/content", issue))
    conversation = given.get("conversation", NEW)
    if not isinstance(conversation, str) or not conversation or "\x00" in conversation:
        problems.append(_problem("/input/conversation", "must be new, same or an id"))
    skills = given.get("selectedSkillIds", [])
    if not isinstance(skills, Sequence) or not all(isinstance(each, str) for each in skills):
        problems.append(_problem("/input/selectedSkillIds", "must be a list of skill ids"))
    context = given.get("context", {})
    if not isinstance(context, dict) or is_larger(context, CONTEXT_BYTES):
        issue = f"must be an object of at most {CONTEXT_BYTES} bytes as JSON"
        problems.append(_problem("/input/context", issue))
    return problems


def _problem(name: str, issue: str) -> dict[str, str]:
    return {"field": name, "issue": issue}


def _moment(at: datetime) -> Moment:
    return Moment(round(at.timestamp() * 1000))


def _iso(moment: Moment | None) -> str | None:
    return None if moment is None else to_iso(moment)
