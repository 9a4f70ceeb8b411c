"""The envelope that every tool call returns."""

import pytest

from penstock.core.envelope import SUSPENDED, Envelope, ErrorDetail, Status, suspended

ERROR = ErrorDetail(code="TIMEOUT", message="too late", retryable=True)
FULL = ErrorDetail(code="X", message="m", continuable=False, suggestion="Try.", details={"at": [1]})


def test_the_statuses_are_those_of_the_wire() -> None:
    """Promised: "Possible statuses are: success failed timeout validation_error suspended"."""
    assert [status.value for status in Status] == [
        "success",
        "failed",
        "timeout",
        "validation_error",
        "suspended",
    ]


WIRES = [
    (Envelope.success({"a": 1}), {"status": "success", "output": {"a": 1}}),
    (Envelope.success(None), {"status": "success", "output": None}),
    (Envelope(Status.SUSPENDED), {"status": "suspended", "output": None}),
    (
        Envelope(Status.TIMEOUT, error=ERROR),
        {
            "status": "timeout",
            "error": {
                "code": "TIMEOUT",
                "message": "too late",
                "retryable": True,
                "continuable": True,
            },
        },
    ),
    (
        Envelope(Status.FAILED, error=FULL),
        {
            "status": "failed",
            "error": {
                "code": "X",
                "message": "m",
                "retryable": False,
                "continuable": False,
                "suggestion": "Try.",
                "details": {"at": [1]},
            },
        },
    ),
    (
        Envelope(Status.FAILED, {"status": "rejected"}, ErrorDetail(code="X", message="m")),
        {
            "status": "failed",
            "error": {"code": "X", "message": "m", "retryable": False, "continuable": True},
            "output": {"status": "rejected"},
        },
    ),
]


@pytest.mark.parametrize(("envelope", "wire"), WIRES, ids=range(len(WIRES)))
def test_an_envelope_has_a_status_and_an_output_or_an_error(
    envelope: Envelope, wire: dict[str, object]
) -> None:
    """Promised: "When error is present, it includes: retryable […] continuable"."""
    assert envelope.to_wire() == wire
    assert Envelope.from_wire(wire) == envelope
    assert envelope.ok is ("error" not in wire)


def test_members_of_a_newer_version_are_ignored() -> None:
    wire = {"status": "failed", "at": 1, "error": {"code": "X", "message": "m", "at": 2}}
    assert Envelope.from_wire(wire) == Envelope(
        Status.FAILED, error=ErrorDetail(code="X", message="m")
    )


def test_an_unknown_status_is_not_an_envelope() -> None:
    with pytest.raises(ValueError, match="'fine' is not a valid Status"):
        Envelope.from_wire({"status": "fine"})


def test_a_suspended_call_names_its_questions() -> None:
    envelope = suspended(["q_1", "q_2"], task_id="task_1")
    assert envelope.status is Status.SUSPENDED
    assert envelope.error == ErrorDetail(
        code=SUSPENDED,
        message="Waiting for an answer to q_1, q_2",
        retryable=True,
        details={"question_ids": ["q_1", "q_2"], "task_id": "task_1"},
    )
