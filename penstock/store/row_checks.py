"""Whether the columns of a row hold what they should: SQLite keeps any value in any column.

A damaged file may hold text where a number was, or a moment that no calendar has. Whoever reads
such a row gets StoreCorrupt, which lists pass over, and not an error in the middle of other work.
Proof: tests/store/test_row_checks.py.
"""

from collections.abc import Iterable

from penstock.core.clock import Moment
from penstock.core.errors import StoreCorrupt
from penstock.core.text import cut

_LAST_MOMENT = 253_402_300_799_999
"""The end of the year 9999."""
_LAST_NUMBER = 2**53
_SHOWN = 40


def check_columns(
    row: object, *, moments: Iterable[str], numbers: Iterable[str], texts: Iterable[str]
) -> None:
    """Raise StoreCorrupt for the first column with a value that is none of its kind, or None."""
    kinds = (
        (moments, is_moment, "a moment"),
        (numbers, is_number, "a number"),
        (texts, _is_text, "a text"),
    )
    for names, fits, wanted in kinds:
        for name in names:
            value = getattr(row, name)
            if value is not None and not fits(value):
                raise _wrong(name, value, wanted)


def is_moment(value: object) -> bool:
    """Whether a value is a moment that can be shown."""
    return isinstance(value, int) and 0 <= value <= _LAST_MOMENT


def is_number(value: object) -> bool:
    """Whether a value is a number or a count of events."""
    return isinstance(value, int) and 0 <= value <= _LAST_NUMBER


def moment_or_first(value: object) -> Moment:
    """Return a moment; the first one there is, for a value that is none."""
    return Moment(value) if isinstance(value, int) and is_moment(value) else Moment(0)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _wrong(name: str, value: object, wanted: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"the column {name} should hold {wanted}, and holds {cut(repr(value), _SHOWN)}. "
        "Run `penstock doctor --rebuild`: it makes the lists again from the logs."
    )
