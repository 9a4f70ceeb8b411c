"""Cron lines: five fields in a time zone, and the times at which they are due.

Fields are minute, hour, day of month, month and day of week, with `*`, lists, ranges, steps, and
names such as `MON` and `JAN`; Sunday is 0 or 7. If both days are restricted, a day that fits either
of them is due. Clock changes follow cron of Debian: a line with a fixed time that the clock skips
is due right after the change, and one whose time comes twice is due the first time; a line with `*`
or a step in the hour or minute is due in both hours. The library `cronsim` computes the times. This
file refuses what the library takes and other crons do not (`L`, `#`, a sixth field), names the
wrong field, and adds the names of usual lines such as `@daily`.

Loaded with `late`, because time zones take 14 ms to import.
Proof: tests/manifest/schedules/test_cron.py.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import dropwhile, takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from msgspec import Struct

from penstock.core.clock import Moment
from penstock.core.diagnostics import nearest
from penstock.core.text import cut

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
"""Names of usual lines."""
FIELDS = ("minute", "hour", "day of month", "month", "day of week")
MAX_CHARS = 100
_FORMS = (
    "0 to 59",
    "0 to 23",
    "1 to 31",
    "1 to 12 or JAN to DEC",
    "0 to 7 or SUN to SAT",
)
_FIELD = re.compile(r"[0-9A-Za-z*,/-]+", re.ASCII)
_LETTERS = 3
_NAMES = re.compile(r"[A-Za-z]+", re.ASCII)
_OTHERS = ("0", "0", "1", "1", "*")
"""Values of the other fields while one field is tried alone."""
_START = datetime(2024, 1, 1, tzinfo=UTC)
_FOLD_MS = 3 * 3_600_000
"""More than any clock is set back at once, in milliseconds."""
MAX_COUNTED = 1500
"""Due times that are counted one by one after a pause: a day of minutes, which takes 5 ms."""


class CronLine(Struct, frozen=True):
    """A valid cron line in a valid time zone."""

    expression: str
    timezone: str

    def next_after(self, moment: Moment) -> Moment:
        """Return the first due time after a moment."""
        return _moment(next(self._from(moment)))

    def newest_until(self, moment: Moment) -> Moment:
        """Return the last due time up to a moment, which counts, too."""
        after = Moment(moment - moment % 60_000 + 60_000)
        if self._is_second_time(after):
            early = Moment(after - _FOLD_MS)
            if found := [*takewhile(after.__gt__, map(_moment, self._from(early)))]:
                return found[-1]
            after = Moment(early + 60_000)
        return _moment(next(self._from(after, is_back=True)))

    def count(self, first: Moment, last: Moment) -> int:
        """Return how many due times there are from `first` to before `last`; at most MAX_COUNTED.

        `first` must be a due time.
        """
        if last <= first:
            return 0
        number = 1
        for due in self._from(first):
            if _moment(due) >= last or number == MAX_COUNTED:
                break
            number += 1
        return number

    def upcoming(self, moment: Moment, count: int) -> list[Moment]:
        """Return the next due times after a moment."""
        due = self._from(moment)
        return [_moment(next(due)) for _ in range(count)]

    def _from(self, moment: Moment, *, is_back: bool = False) -> Iterator[datetime]:
        # In an hour that comes a second time, CronSim does not know what was due the first time.
        is_second = not is_back and self._is_second_time(moment)
        begin = moment - _FOLD_MS if is_second else moment
        start = datetime.fromtimestamp(begin / 1000, _zone(self.timezone))
        due = CronSim(expand(self.expression), start, reverse=is_back)
        return dropwhile(lambda each: _moment(each) <= moment, due) if is_second else due

    def _is_second_time(self, moment: Moment) -> bool:
        """Whether the clock of the zone shows this time for the second time on its day."""
        return bool(datetime.fromtimestamp(moment / 1000, _zone(self.timezone)).fold)


def expand(expression: str) -> str:
    """Return the five fields of a line; those that an alias means."""
    text = expression.strip()
    return ALIASES.get(text.lower(), text)


def check(expression: str) -> str:
    """Return the reason why a line is wrong, or an empty text. The reason names the field."""
    text = expression.strip()
    if text.startswith("@"):
        known = ", ".join(ALIASES)
        near = nearest(text.lower(), ALIASES)
        hint = f"; did you mean {near}?" if near else ""
        is_known = text.lower() in ALIASES
        return "" if is_known else f"{cut(text, 40)!r} is not known; use one of {known}{hint}"
    fields = text.split()
    if len(text) > MAX_CHARS or len(fields) != len(FIELDS):
        found = cut(text, 60)
        return f"must have five fields ({', '.join(FIELDS)}), found {len(fields)} in {found!r}"
    reasons = [reason for place, field in enumerate(fields) if (reason := _wrong(place, field))]
    return reasons[0] if reasons else _never(fields)


def check_zone(name: str) -> str:
    """Return the reason why a time zone is wrong, or an empty text."""
    if name in _zones():
        return ""
    if not name:
        return "must be an IANA time zone such as Europe/Berlin, found an empty text"
    folded = {each.casefold(): each for each in _zones()}
    near = folded.get(name.casefold()) or nearest(name, _zones()) or _with_city(name)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"must be an IANA time zone such as Europe/Berlin, found {cut(name, 60)!r}{hint}"


def _with_city(name: str) -> str | None:
    """Return a zone whose last part is this name: people write `Berlin`."""
    city = name.strip().replace(" ", "_").casefold()
    found = (each for each in sorted(_zones()) if each.casefold().endswith(f"/{city}"))
    return next(found, None)


def _wrong(place: int, field: str) -> str:
    """Return why a field is wrong, or an empty text."""
    name, form = FIELDS[place], _FORMS[place]
    reason = f"the {name} must be {form}, with * , - and /; found {cut(field, 40)!r}"
    are_short = all(len(each) == _LETTERS for each in _NAMES.findall(field))
    if not (_FIELD.fullmatch(field) and are_short):
        return reason
    alone = [field if place == each else other for each, other in enumerate(_OTHERS)]
    try:
        CronSim(" ".join(alone), _START)
    except CronSimError:
        return reason
    return ""


def _never(fields: list[str]) -> str:
    """Return why a line is never due, or an empty text."""
    try:
        next(CronSim(" ".join(fields), _START))
    except (CronSimError, StopIteration):
        day, month = fields[2], fields[3]
        return f"the day of month {day!r} never comes in the month {month!r}"
    return ""


def _moment(due: datetime) -> Moment:
    return Moment(round(due.timestamp() * 1000))


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones() - {"Factory", "localtime"})
