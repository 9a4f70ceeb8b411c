"""Which secrets a task was given: every call of it knows them, also after a restart."""

from collections.abc import Iterable
from contextlib import suppress
from weakref import WeakKeyDictionary

from penstock.core.call import CallPath
from penstock.core.call_errors import VaultNotFound
from penstock.core.ids import TaskId
from penstock.core.scope import Scope
from penstock.core.secret_events import SecretGiven
from penstock.engine.held import HeldLog
from penstock.engine.ledger import Ledger
from penstock.resources.redact import Redactor
from penstock.resources.vault import Vault


class GivenSecrets:
    """What is taken out of the records of tasks, for as long as their logs are in hand."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[HeldLog, dict[TaskId, Redactor]] = WeakKeyDictionary()

    async def of(self, ledger: Ledger, vault: Vault | None) -> Redactor:
        """Return the one redactor of a task, with all that the log says was given out before.

        The log has names, never values: a secret that the vault has no more is not known again.
        """
        known = self._of.setdefault(ledger.held, {})
        task = ledger.task
        if task.task_id in known:
            return known[task.task_id]
        redactor = Redactor()
        if vault is not None:
            await _fill(redactor, tuple(task.secrets), vault)
        return known.setdefault(task.task_id, redactor)


def note_given(ledger: Ledger, path: CallPath, scope: Scope, key: str) -> None:
    """Note in the log of the task, once, that a call was given a secret."""
    given = SecretGiven(scope=scope, key=key)
    if given not in ledger.task.secrets:
        ledger.add(given, path)


async def _fill(redactor: Redactor, noted: Iterable[SecretGiven], vault: Vault) -> None:
    for given in noted:
        with suppress(VaultNotFound):
            redactor.add(given.key, await vault.get(given.scope, given.key))
