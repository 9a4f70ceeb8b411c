"""Envelopes without the secrets that were given out."""

import pytest

from penstock.core.call_errors import StateDenied
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.events import NoteEmitted, StoredFile
from penstock.core.ids import BlobId
from penstock.core.state import FileChange, FileChanges, Scope, ScopeKind
from penstock.resources.redact import Redactor
from penstock.tools.results.redaction import (
    check_change,
    redacted,
    redacted_error,
    redacted_files,
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


def test_an_error_has_none_in_its_words_and_details() -> None:
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
        check_change(FileChanges(files=(files,)), knowing())
    check_change(FileChanges(files=(files,)), Redactor())


def test_what_is_kept_and_told_has_no_secret_in_its_names() -> None:
    secrets = knowing()
    kept = StoredFile(blob_id=BlobId("b"), mime_type="a/b", size=1, is_image=False, name=WORD)
    assert redacted_files([kept], secrets)[0].name == "[secret:token]"
    note = NoteEmitted(event_type=WORD, title=WORD, payload=[WORD])
    told = NoteEmitted(
        event_type="[secret:token]", title="[secret:token]", payload=["[secret:token]"]
    )
    assert redacted_note(note, secrets) == told
