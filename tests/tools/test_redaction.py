"""Envelopes without the secrets that were given out."""

from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.resources.redact import Redactor
from penstock.tools.redaction import redacted, redacted_error

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
