"""The texts of one dispatcher in the database.

They are values of a scope of their own, so that erasing a profile, copies and moves of a project
include them. Proof: tests/contracts/test_subjects.py.
"""

from collections.abc import Sequence

from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.scopes import Scope
from penstock.store.statements import Statements


class SqlShelf:
    """The texts of one dispatcher, in the values of its scope, which the change has locked."""

    def __init__(self, sql: Statements, cursor: DBAPICursor, scope: Scope) -> None:
        self._sql = sql
        self._cursor = cursor
        self._owner = (scope.kind.value, scope.id)

    def find(self, key: str) -> str | None:
        """Return the text under a key."""
        self._cursor.execute(self._sql.value, (*self._owner, key.encode()))
        row = self._cursor.fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, text: str) -> None:
        """Store a text."""
        place = (*self._owner, key.encode())
        self._cursor.execute(self._sql.set_value, (text, "", None, *place))
        if not self._cursor.rowcount:
            self._cursor.execute(self._sql.add_value, (text, "", None, *place))
            self._cursor.execute(self._sql.count_scope, (1, 0, *self._owner))

    def drop(self, key: str) -> None:
        """Remove a text."""
        self._cursor.execute(self._sql.drop_value, (*self._owner, key.encode()))
        self._cursor.execute(self._sql.count_scope, (-self._cursor.rowcount, 0, *self._owner))

    def between(self, low: str, high: str, limit: int) -> Sequence[str]:
        """Return the first keys of a range."""
        bounds = (*self._owner, low.encode(), high.encode(), limit)
        self._cursor.execute(self._sql.keys_between, bounds)
        return [bytes(row[0]).decode() for row in self._cursor.fetchall()]
