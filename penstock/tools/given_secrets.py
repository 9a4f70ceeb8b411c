"""The secrets that a task has received, so that its records can be redacted.

Every call of a task shares one Redactor. It knows each secret that any call of the task received,
because a tool may pass a secret on to the next tool, whose output would then contain it.

The log holds the names of the secrets, never their values. A process that takes a task over reads
the names from the log and the current values from the vault. A secret that was deleted from the
vault in between is not redacted any more: its value is unknown. The redactors are dropped with the
HeldLog, so a secret stays in memory only as long as its log is held.

Proof: `tests/tools/test_given_secrets.py`, `tests/journeys/test_secrets.py`.
"""

from collections.abc import Iterable
from contextlib import suppress
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.call_errors import VaultNotFound
from penstock.core.events.events import SecretGiven
from penstock.core.ids import TaskId
from penstock.core.state import Scope
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.resources.redact import Redactor
from penstock.resources.vault import Vault
from penstock.tools.access.policy import Caller


class TaskSecrets:
    """The redactor of one task."""

    __slots__ = ("_newest", "_original", "redactor")

    def __init__(self) -> None:
        self.redactor = Redactor()
        self._original: Caller | None = None
        self._newest: Caller | None = None

    def add_to(self, caller: Caller) -> Caller:
        """Return the caller with the task's redactor."""
        # Most calls of a task have the same caller: the copy is made once.
        if self._newest is None or self._original is not caller:
            self._original, self._newest = caller, replace(caller, secrets=self.redactor)
        return self._newest


class GivenSecrets:
    """The redactors of all tasks whose logs this process holds."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[HeldLog, dict[TaskId, TaskSecrets]] = WeakKeyDictionary()

    async def of(self, ledger: Ledger, vault: Vault | None) -> TaskSecrets:
        """Return a task's secrets, with those that earlier entries received."""
        known = self._of.setdefault(ledger.held, {})
        task = ledger.task
        if task.task_id in known:
            return known[task.task_id]
        secrets = TaskSecrets()
        if vault is not None:
            await _add_recorded(secrets.redactor, tuple(task.secrets), vault)
        # Another call of the task may have filled it while this one waited for the vault.
        return known.setdefault(task.task_id, secrets)


def note_given(ledger: Ledger, path: CallPath, scope: Scope, key: str) -> None:
    """Record in the log, once per task, that a call received a secret."""
    given = SecretGiven(scope=scope, key=key)
    if given not in ledger.task.secrets:
        ledger.add(given, path)


async def _add_recorded(redactor: Redactor, events: Iterable[SecretGiven], vault: Vault) -> None:
    for event in events:
        with suppress(VaultNotFound):
            redactor.add(event.key, await vault.get(event.scope, event.key))
