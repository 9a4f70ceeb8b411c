"""What a task was given out of the vault, and who knows of it."""

from msgspec.structs import replace

from penstock.core.events.events import SecretGiven
from penstock.core.ids import TaskId
from penstock.core.state import Scope, ScopeKind
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import Workbench, open_workbench
from penstock.testing.resources import MemoryVault
from penstock.tools.given_secrets import GivenSecrets, note_given

OWN = Scope(ScopeKind.PROFILE, "local")
SAID = "s3cr3t-value and another-value"


async def given(bench: Workbench) -> MemoryVault:
    """Return a vault of which the task was given a secret."""
    vault = MemoryVault(bench.world.clock)
    await vault.set(OWN, "token", "s3cr3t-value")
    bench.ledger.add(SecretGiven(scope=OWN, key="token"))
    return vault


async def test_all_calls_of_a_task_share_one_redactor_while_its_log_is_in_hand() -> None:
    """What one agent of a run is given, the others may come across."""
    bench, secrets = await open_workbench(), GivenSecrets()
    vault = await given(bench)
    redactor = (await secrets.of(bench.ledger, vault)).redactor
    assert redactor.text(SAID) == "[secret:token] and another-value"
    assert (await secrets.of(bench.ledger, vault)).redactor is redactor


async def test_every_caller_in_a_task_knows_them_and_no_caller_of_another() -> None:
    bench, secrets = await open_workbench(), GivenSecrets()
    known = await secrets.of(bench.ledger, None)
    models = [replace(bench.model, agent=each) for each in ("ada", "bob", "ada")]
    told = [known.add_to(each) for each in models]
    assert [each.agent for each in told] == ["ada", "bob", "ada"]
    assert all(each.secrets is known.redactor for each in told)
    assert known.add_to(models[2]) is told[2]
    assert not any(each.secrets is known.redactor for each in models)


async def test_a_task_knows_nothing_of_the_secrets_of_another() -> None:
    bench, secrets = await open_workbench(), GivenSecrets()
    known = (await secrets.of(bench.ledger, await given(bench))).redactor
    bench.ledger.task.task_id = TaskId("task_other")
    bench.ledger.task.secrets.clear()
    other = (await secrets.of(bench.ledger, None)).redactor
    assert (known.has_any, other.has_any) == (True, False)


async def test_who_takes_the_log_over_knows_the_secret_as_it_is_now() -> None:
    """The vault keeps no old values: only a process that gave one out knows it."""
    bench, secrets = await open_workbench(), GivenSecrets()
    vault = await given(bench)
    before = (await secrets.of(bench.ledger, vault)).redactor
    await bench.ledger.held.commit()
    await vault.set(OWN, "token", "another-value")
    before.add("token", await vault.get(OWN, "token"))
    assert before.text(SAID) == "[secret:token] and [secret:token]"
    clock = bench.world.clock
    assert isinstance(clock, FakeClock)
    clock.advance(bench.world.limits.lease_seconds + 1)
    await bench.take_over()
    after = (await secrets.of(bench.ledger, vault)).redactor
    assert after.text(SAID) == "s3cr3t-value and [secret:token]"


async def test_a_secret_that_was_deleted_is_passed_over() -> None:
    bench, secrets = await open_workbench(), GivenSecrets()
    vault = await given(bench)
    await vault.delete(OWN, "token")
    assert not (await secrets.of(bench.ledger, vault)).redactor.has_any


async def test_a_secret_is_noted_once_by_its_name() -> None:
    bench = await open_workbench()
    path = bench.next_call("x").path
    for _ in range(2):
        note_given(bench.ledger, path, OWN, "token")
    notes = [each for each in await bench.events() if isinstance(each, SecretGiven)]
    assert notes == [SecretGiven(scope=OWN, key="token")]
