"""Which secrets a task was given: every call of it knows them, also after a restart."""

from collections.abc import Iterable
from contextlib import suppress
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.call_errors import VaultNotFound
from penstock.core.events.secret_events import SecretGiven
from penstock.core.ids import TaskId
from penstock.core.state.scope import Scope
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.resources.redact import Redactor
from penstock.resources.vault import Vault
from penstock.tools.access.policy import Caller


class TaskSecrets:
    """What was given out in one task, and who calls in it."""

    __slots__ = ("_caller", "_came", "redactor")

    def __init__(self) -> None:
        self.redactor = Redactor()
        self._came: Caller | None = None
        self._caller: Caller | None = None

    def told_to(self, caller: Caller) -> Caller:
        """Return the caller with the redactor of the task; most calls come from the same one."""
        if self._caller is None or self._came is not caller:
            self._came, self._caller = caller, replace(caller, secrets=self.redactor)
        return self._caller


class GivenSecrets:
    """What is taken out of the records of tasks, for as long as their logs are in hand."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[HeldLog, dict[TaskId, TaskSecrets]] = WeakKeyDictionary()

    async def of(self, ledger: Ledger, vault: Vault | None) -> TaskSecrets:
        """Return those of a task, with all that the log says was given out before.

        The log has names, never values: a secret that the vault has no more is not known again.
        """
        known = self._of.setdefault(ledger.held, {})
        task = ledger.task
        if task.task_id in known:
            return known[task.task_id]
        secrets = TaskSecrets()
        if vault is not None:
            await _fill(secrets.redactor, tuple(task.secrets), vault)
        return known.setdefault(task.task_id, secrets)


def note_given(ledger: Ledger, path: CallPath, scope: Scope, key: str) -> None:
    """Note in the log of the task, once, that a call was given a secret."""
    given = SecretGiven(scope=scope, key=key)
    if given not in ledger.task.secrets:
        ledger.add(given, path)


async def _fill(redactor: Redactor, noted: Iterable[SecretGiven], vault: Vault) -> None:
    for given in noted:
        with suppress(VaultNotFound):
            redactor.add(given.key, await vault.get(given.scope, given.key))
