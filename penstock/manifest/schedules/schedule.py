"""`*.schedule.yaml`: a message that an agent gets at due times.

A trigger is another way to write a cron line. Checks of agents and skills need other files:
`check_schedules` does those. Proof: tests/manifest/schedules/test_schedule.py.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from penstock.core.diagnostics import nearest
from penstock.core.envelope import Json
from penstock.core.ids import ASSISTANT
from penstock.core.json_values.json_text import is_larger
from penstock.core.late import late
from penstock.core.limits import KIB
from penstock.manifest.fields import Field, Invalid, Node, quoted, read_fields
from penstock.manifest.kinds import (
    TIME_ZONE,
    Boolean,
    CheckedText,
    Id,
    Integer,
    ListOf,
    OneOf,
    RecordKind,
    Text,
    exactly_one,
    from_fields,
)

CONTEXT_BYTES = 32 * KIB
MINUTES, HOURS, MOST_TIMES = 60, 24, 24
_MAX_SECONDS = 31_536_000


class SuspensionTimeout(Struct, frozen=True, kw_only=True):
    """How long a question waits for a person, and the message that follows."""

    seconds: int
    resume_prompt: str


class ScheduleManifest(Struct, frozen=True, kw_only=True):
    """One schedule of a project."""

    schedule_id: str
    user_message: str
    timezone: str
    cron: str
    profile_id: str | None
    """The profile that its tasks run for; None means that of the project."""
    context: Json
    agent: str
    required_labels: tuple[str, ...]
    selected_skill_ids: tuple[str, ...]
    skip_skill_selection: bool
    enabled: bool
    concurrency: str
    suspension_timeout: SuspensionTimeout | None
    file: str


def read_schedule(node: Node) -> ScheduleManifest:
    """Return the schedule in a mapping; report its errors."""
    values = read_fields(node, FIELDS)
    exactly_one(node, "cron_expression", "trigger")
    channel, user = values["profile_channel"], values["profile_external_user_id"]
    if ("profile_channel" in node.value) != ("profile_external_user_id" in node.value):
        message = f'{node.title} must have both "profile_channel" and "profile_external_user_id"'
        node.refuse("both-or-neither", f"{message}, or neither")
    return ScheduleManifest(
        schedule_id=values["schedule_id"] or "",
        user_message=values["user_message"] or "",
        timezone=values["timezone"] or "UTC",
        cron=values["cron_expression"] or values["trigger"] or "",
        profile_id=f"{channel}:{user}" if channel and user else None,
        context=values["context"],
        agent=values["target_agent_override"],
        required_labels=values["required_labels"],
        selected_skill_ids=values["selected_skill_ids"],
        skip_skill_selection=values["skip_skill_selection"],
        enabled=values["enabled"],
        concurrency=values["concurrency_policy"],
        suspension_timeout=values["suspension_timeout"],
        file=node.document.file,
    )


def check_ids(schedules: Sequence[tuple[ScheduleManifest, Node]], skills: Collection[str]) -> None:
    """Report ids that several files have, and skills that do not exist."""
    places: dict[str, list[Node]] = {}
    for schedule, node in schedules:
        if schedule.schedule_id:
            places.setdefault(schedule.schedule_id, []).append(node.at("schedule_id"))
        for number, skill_id in enumerate(schedule.selected_skill_ids):
            if skill_id not in skills:
                near = nearest(skill_id, skills)
                item = node.at("selected_skill_ids", number)
                message = f'{quoted(skill_id)} in "selected_skill_ids" is not a skill'
                hint = near and f'did you mean "{near}"?'
                item.refuse("unknown-skill-ref", message, suggestion=hint)
    for schedule_id, nodes in places.items():
        files = ", ".join(f"{each.document.file}:{each.place.line}" for each in nodes)
        for node in nodes if len(nodes) > 1 else ():
            message = f"schedule {quoted(schedule_id)} is defined more than once: {files}"
            node.refuse("duplicate-schedule", message)


def check_agents(
    schedules: Iterable[tuple[ScheduleManifest, Node]], agents: Mapping[str, Sequence[str] | None]
) -> None:
    """Report agents that do not exist, and labels that they lack.

    `agents` has the labels of each agent; None where they are not known.
    """
    for schedule, node in schedules:
        override = node.at("target_agent_override")
        if schedule.agent not in agents:
            near = nearest(schedule.agent, agents)
            message = f"there is no agent {quoted(schedule.agent)}"
            hint = near and f'did you mean "{near}"?'
            override.refuse("unknown-agent", message, suggestion=hint)
            continue
        labels = agents[schedule.agent]
        missing = [each for each in schedule.required_labels if each not in (labels or ())]
        if missing and labels is not None:
            names = ", ".join(map(quoted, missing))
            message = f"agent {quoted(schedule.agent)} lacks the labels {names}: each run fails"
            node.at("required_labels").warn("labels-not-met", message)


_CRON = CheckedText(
    expected="a cron line of five fields, or a name such as @daily",
    check=lambda text: str(late("penstock.manifest.schedules.cron:check")(text)),
    code="bad-cron",
    colon=":",
)


class ContextField(Struct, frozen=True, kw_only=True):
    """An object of JSON that is not large."""

    expected: str = "a mapping of at most 32 KiB as JSON"

    def read(self, node: Node) -> Json | Invalid:
        """Return the object."""
        if not isinstance(node.value, dict):
            return node.wrong_type(self.expected)
        if is_larger(node.value, CONTEXT_BYTES):
            return node.bad_value(self.expected)
        return node.value


def _trigger(node: Node, values: dict[str, Any]) -> str | None:
    """Return the cron line of a trigger; report what does not go together."""
    kinds = [each for each in _KINDS if each in node.value]
    if len(kinds) != 1:
        found = ", ".join(kinds) or "none"
        message = f"{node.title} must have exactly one of {', '.join(_KINDS)}; found {found}"
        node.refuse("exactly-one", message)
        return None
    days = ",".join(map(str, values["days_of_week"])) or "*"
    if len(set(values["days_of_week"])) != len(values["days_of_week"]):
        node.at("days_of_week").bad_value("days without doubles")
    if (minutes := values["minutes_interval"]) is not None:
        _warn_uneven(node.at("minutes_interval"), minutes, MINUTES, "each hour")
        return f"*/{minutes} * * * {days}"
    if (hours := values["hours_interval"]) is not None:
        _warn_uneven(node.at("hours_interval"), hours, HOURS, "each midnight")
        return f"0 */{hours} * * {days}"
    times = tuple(each for each in values["times_of_day"] or () if each is not None)
    listed = node.at("times_of_day")
    if len(set(times)) != len(times):
        listed.bad_value("times without doubles")
    minutes_of = sorted({minute for _, minute in times})
    if len(minutes_of) > 1:
        message = "all times must have the same minute; write one schedule for each minute"
        listed.refuse("mixed-minutes", f'"{listed.name}": {message}')
    if not times:
        return None
    hours_of = ",".join(str(hour) for hour in sorted({hour for hour, _ in times}))
    return f"{minutes_of[0]} {hours_of} * * {days}"


def _warn_uneven(node: Node, interval: int, whole: int, restart: str) -> None:
    if whole % interval:
        message = f'"{node.name}" does not divide {whole}: the count restarts {restart}'
        node.warn("uneven-interval", message)


def _time(hour: int | None, minute: int | None) -> tuple[int, int] | None:
    return None if hour is None or minute is None else (hour, minute)


_KINDS = ("minutes_interval", "hours_interval", "times_of_day")


def _row(key: str, kind: Any, meaning: str, default: Any = None) -> Field:
    return Field(key=key, kind=kind, meaning=meaning, default=default)


def _needed(key: str, kind: Any, meaning: str) -> Field:
    return Field(key=key, kind=kind, meaning=meaning, required=True)


TIME_FIELDS = (
    _needed("hour", Integer(low=0, high=HOURS - 1), "The hour."),
    _needed("minute", Integer(low=0, high=MINUTES - 1), "The minute, the same for all times."),
)
TRIGGER_FIELDS = (
    _needed("kind", OneOf(words=("recurring",)), "The kind of trigger."),
    _row("minutes_interval", Integer(low=1, high=MINUTES - 1), "Due every so many minutes."),
    _row("hours_interval", Integer(low=1, high=HOURS - 1), "Due every so many hours."),
    _row(
        "times_of_day",
        ListOf(
            item=RecordKind(fields=TIME_FIELDS, build=from_fields(_time)),
            expected="a list of 1 to 24 times",
            least=1,
            most=MOST_TIMES,
        ),
        "Due at these times.",
    ),
    _row(
        "days_of_week",
        ListOf(item=Integer(low=0, high=6), expected="a list of days", least=1, most=7),
        "Only on these days; 0 is Sunday.",
        (),
    ),
)
TIMEOUT_FIELDS = (
    _needed("seconds", Integer(low=1, high=_MAX_SECONDS), "How long a question waits, at most."),
    _needed(
        "resume_prompt",
        Text(expected="a string of 1 to 100000 characters", least=1, most=100_000),
        "The next message to the agent, if no answer came.",
    ),
)
_NAMES = ListOf(item=Text(expected="a string", least=1), expected="a list of strings", most=100)
_PROFILE = Text(expected="a string of 1 to 128 characters", least=1, most=128)
FIELDS = (
    _needed("schedule_id", Id(noun="schedule"), "The id of the schedule."),
    _row("profile_channel", _PROFILE, "With the next field: the profile of the tasks."),
    _row("profile_external_user_id", _PROFILE, "The id of the person in that channel."),
    _needed(
        "user_message",
        Text(expected="a string of 1 to 100000 characters", least=1, most=100_000),
        "The message that is sent.",
    ),
    _needed("timezone", TIME_ZONE, "The time zone of the cron line or trigger."),
    _row("cron_expression", _CRON, "When it is due; or `trigger`."),
    _row(
        "trigger",
        RecordKind(fields=TRIGGER_FIELDS, build=_trigger),
        "When it is due, without a cron line.",
    ),
    _row(
        "context", ContextField(), "Members of `flo.task.getContext()`; models do not see it.", {}
    ),
    _row(
        "target_agent_override",
        Text(expected="the name of an agent", least=1),
        "The agent.",
        ASSISTANT,
    ),
    _row("required_labels", _NAMES, "Labels that the agent must have, or the run fails.", ()),
    _row("selected_skill_ids", _NAMES, "Skills that are selected for the run.", ()),
    _row(
        "skip_skill_selection",
        Boolean(),
        "Leave out the skills that the agent preselects.",
        default=False,
    ),
    _row("enabled", Boolean(), "Whether it fires; false pauses it.", default=True),
    _row(
        "concurrency_policy",
        OneOf(words=("allow", "forbid")),
        "`forbid`: a due time is missed while a run has not ended.",
        "allow",
    ),
    _row(
        "suspension_timeout",
        RecordKind(fields=TIMEOUT_FIELDS, build=from_fields(SuspensionTimeout)),
        "A limit on the wait for answers to questions of the run.",
    ),
)
