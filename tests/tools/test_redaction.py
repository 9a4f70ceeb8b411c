"""Envelopes without the secrets that were given out."""

import pytest
from msgspec.structs import replace

from penstock.core.call_errors import StateDenied
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.events import NoteEmitted, SecretGiven
from penstock.core.ids import BlobId, TaskId
from penstock.core.messages import StoredFile
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import FileChange, WorkspaceChange
from penstock.core.task import FREE, Option, QuestionForm
from penstock.resources.redact import Redactor
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import Workbench, open_workbench
from penstock.testing.resources import MemoryVault
from penstock.tools.redaction import (
    GivenSecrets,
    check_change,
    check_value,
    note_given,
    redacted,
    redacted_error,
    redacted_files,
    redacted_form,
    redacted_note,
)

WORD = "s3cr3t-value"


def knowing() -> Redactor:
    secrets = Redactor()
    secrets.add("token", WORD)
    return secrets


def test_before_the_first_secret_nothing_is_touched() -> None:
    envelope = Envelope.success({"a": WORD})
    assert redacted(envelope, Redactor()) is envelope


def test_an_output_has_no_secret_at_any_depth() -> None:
    found = redacted(Envelope.success({"a": [f"x{WORD}y", {WORD: 1}]}), knowing())
    assert found.output == {"a": ["x[secret:token]y", {"[secret:token]": 1}]}


def test_an_error_has_no_secret_in_its_message_and_details() -> None:
    error = ErrorDetail(
        code="X", message=WORD, suggestion=WORD, details={"stack": [WORD]}, retryable=True
    )
    found = redacted(Envelope(Status.FAILED, error=error), knowing()).error
    assert found == redacted_error(error, knowing())
    assert found is not None
    assert WORD not in repr(found)
    assert found.retryable


@pytest.mark.parametrize("name", [f"a-{WORD}", "czNjcjN0LXZhbHVl"])
def test_no_file_has_a_secret_in_its_name(name: str) -> None:
    scope = Scope(ScopeKind.TASK, "t")
    files = FileChange(scope=scope, path=f"d/{name}", blob_id=None)
    with pytest.raises(StateDenied, match="the path of a file may not hold a secret"):
        check_change(WorkspaceChange(files=(files,)), knowing())
    check_change(WorkspaceChange(files=(files,)), Redactor())


def test_notes_and_changes_have_no_secret_in_their_names() -> None:
    secrets = knowing()
    kept = StoredFile(blob_id=BlobId("b"), mime_type="a/b", size=1, is_image=False, name=WORD)
    assert redacted_files([kept], secrets)[0].name == "[secret:token]"
    note = NoteEmitted(event_type=WORD, title=WORD, payload=[WORD])
    told = NoteEmitted(
        event_type="[secret:token]", title="[secret:token]", payload=["[secret:token]"]
    )
    assert redacted_note(note, secrets) == told


OWN = Scope(ScopeKind.PROFILE, "local")
SAID = "s3cr3t-value and another-value"


@pytest.mark.parametrize("value", ["s3cr3t-value", ["a s3cr3t-value"], {"s3cr3t-value": 1}])
def test_a_value_with_a_secret_is_not_stored(value: object) -> None:
    """V6: "`STATE_DENIED`, `secrets belong in the vault`"."""
    check_value(Redactor(), value)
    check_value(knowing(), "another value")
    with pytest.raises(StateDenied, match=r"^secrets belong in the vault$"):
        check_value(knowing(), value)


FORM = QuestionForm(
    options=(Option(label=f"Use {WORD}", value=WORD, aliases=(WORD, "no")),),
    schema={"type": "string", "const": WORD},
    context=f"It is {WORD}.",
    typed={"type": "text", "placeholder": WORD},
)


def test_a_form_has_no_secret_in_any_field() -> None:
    secrets = knowing()
    shown = redacted_form(FORM, secrets)
    assert WORD not in repr(shown)
    assert (len(shown.options), shown.options[0].aliases[1]) == (1, "no")
    assert redacted_form(FREE, secrets) == FREE


def test_before_the_first_secret_a_form_is_unchanged() -> None:
    assert redacted_form(FORM, Redactor()) is FORM


async def given(bench: Workbench) -> MemoryVault:
    """Return a vault of which the task was given a secret."""
    vault = MemoryVault(bench.world.clock)
    await vault.set(OWN, "token", "s3cr3t-value")
    bench.ledger.add(SecretGiven(scope=OWN, key="token"))
    return vault


async def test_all_calls_of_a_task_share_one_redactor_while_its_log_is_held() -> None:
    """What one agent of a run is given, the others may come across."""
    bench, secrets = await open_workbench(), GivenSecrets()
    vault = await given(bench)
    redactor = (await secrets.load(bench.ledger, vault)).redactor
    assert redactor.text(SAID) == "[secret:token] and another-value"
    assert (await secrets.load(bench.ledger, vault)).redactor is redactor


async def test_every_caller_of_a_task_has_its_redactor_and_no_other_task_does() -> None:
    bench, secrets = await open_workbench(), GivenSecrets()
    known = await secrets.load(bench.ledger, None)
    models = [replace(bench.model, agent=each) for each in ("ada", "bob", "ada")]
    redacted = [known.add_to(each) for each in models]
    assert [each.agent for each in redacted] == ["ada", "bob", "ada"]
    assert all(each.secrets is known.redactor for each in redacted)
    assert known.add_to(models[2]) is redacted[2]
    assert not any(each.secrets is known.redactor for each in models)


async def test_a_task_does_not_redact_secrets_of_another() -> None:
    bench, secrets = await open_workbench(), GivenSecrets()
    known = (await secrets.load(bench.ledger, await given(bench))).redactor
    bench.ledger.task.task_id = TaskId("task_other")
    bench.ledger.task.records.secrets.clear()
    other = (await secrets.load(bench.ledger, None)).redactor
    assert (known.has_any, other.has_any) == (True, False)


async def test_a_process_that_takes_a_log_over_redacts_the_current_secret() -> None:
    """The vault keeps no old values: only a process that gave one out knows it."""
    bench, secrets = await open_workbench(), GivenSecrets()
    vault = await given(bench)
    before = (await secrets.load(bench.ledger, vault)).redactor
    await bench.ledger.held.commit()
    await vault.set(OWN, "token", "another-value")
    before.add("token", await vault.get(OWN, "token"))
    assert before.text(SAID) == "[secret:token] and [secret:token]"
    clock = bench.world.clock
    assert isinstance(clock, FakeClock)
    clock.advance(bench.world.limits.lease_seconds + 1)
    await bench.take_over()
    after = (await secrets.load(bench.ledger, vault)).redactor
    assert after.text(SAID) == "s3cr3t-value and [secret:token]"


async def test_a_deleted_secret_is_skipped() -> None:
    bench, secrets = await open_workbench(), GivenSecrets()
    vault = await given(bench)
    await vault.delete(OWN, "token")
    assert not (await secrets.load(bench.ledger, vault)).redactor.has_any


async def test_a_secret_is_recorded_once_by_name() -> None:
    bench = await open_workbench()
    path = bench.next_call("x").path
    for _ in range(2):
        note_given(bench.ledger, path, OWN, "token")
    notes = [each for each in await bench.events() if isinstance(each, SecretGiven)]
    assert notes == [SecretGiven(scope=OWN, key="token")]
