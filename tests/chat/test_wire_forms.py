"""Calls, results and questions on the wire."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.builtins.media import TOOLS
from penstock.chat.wire_forms import (
    Attachments,
    call_part,
    event_part,
    question_part,
    question_record,
    result_part,
    task_part,
)
from penstock.core.call import CallPath, ToolCall
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.codec import to_wire
from penstock.core.events.events import CallSettled, NoteEmitted, Record
from penstock.core.ids import ArtifactId, BlobId, CallId, LogId, ProfileId, QuestionId, TaskId
from penstock.core.messages import StoredFile
from penstock.core.task import (
    Option,
    Question,
    QuestionKind,
    QuestionRecord,
    QuestionStatus,
    TaskRecord,
    TaskStatus,
)
from penstock.models.scripted import ScriptedModel, call, say
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.server import CHAT, frames, served

ASKED = Question(
    question_id=QuestionId("q_1"),
    kind=QuestionKind.ASK_USER,
    text="Which?",
    path=CallPath("task_1/1/plan#a/ask_user#b"),
    options=(Option(label="One", value="1", aliases=("first",)),),
)
RECORD = QuestionRecord(
    question=ASKED,
    log_id=LogId("conv_1"),
    task_id=TaskId("task_1"),
    profile_id=ProfileId("ann"),
    agent="assistant",
    asked_at=Moment(0),
)


def test_a_question_of_a_plain_direct_call_has_no_conversation() -> None:
    """As for its task: the log of a direct call is no conversation."""
    alone = replace(RECORD, log_id=LogId("task_1"))
    assert question_record(alone)["conversationId"] is None
    assert question_record(RECORD)["conversationId"] == "conv_1"


def test_a_call_is_its_id_name_and_arguments() -> None:
    """The chat loop's promise of a call: `id`, `name`, `arguments`."""
    call = ToolCall(CallId("tc_1"), "add", {"a": 1})
    assert call_part(call) == {"id": "tc_1", "name": "add", "arguments": {"a": 1}}


def test_a_result_has_output_and_preview() -> None:
    """The chat loop's promise of a result: `success`, `result`, `resultPreview`."""
    settled = CallSettled(
        tool_id="search_knowledge",
        envelope=Envelope.success({"results": []}),
        call_id=CallId("tc_1"),
        preview="Found 5 results",
    )
    assert result_part(settled, str) == {
        "type": "tool_result",
        "toolCallId": "tc_1",
        "name": "search_knowledge",
        "success": True,
        "result": {"results": []},
        "resultPreview": "Found 5 results",
    }


def test_a_clipped_result_names_the_artifact_with_the_whole() -> None:
    settled = CallSettled(
        tool_id="search",
        envelope=Envelope.success("never shown here"),
        context="the beginning",
        artifact_id=ArtifactId("art_1"),
        total_characters=20_000,
    )
    part = result_part(settled, str)
    assert part["result"] == "the beginning"
    assert part["truncated"] is True
    assert (part["totalCharacters"], part["artifactId"]) == (20_000, "art_1")


def test_files_of_a_result_are_linked() -> None:
    files = (
        StoredFile(
            blob_id=BlobId("one"), mime_type="image/png", size=9, is_image=True, width=3, height=2
        ),
        StoredFile(blob_id=BlobId("two"), mime_type="image/webp", size=8, is_image=True),
        StoredFile(
            blob_id=BlobId("three"),
            mime_type="application/pdf",
            size=7,
            is_image=False,
            name="a.pdf",
        ),
    )
    settled = CallSettled(tool_id="draw", envelope=Envelope.success(1), files=files)
    part = result_part(settled, lambda stored: f"https://here/{stored.blob_id}")
    first = {"url": "https://here/one", "mimeType": "image/png", "bytes": 9}
    assert part["imageUrl"] == "https://here/one"
    assert part["images"] == [
        first | {"width": 3, "height": 2},
        {"url": "https://here/two", "mimeType": "image/webp", "bytes": 8},
    ]
    (file,) = part["files"]
    assert file["url"] == "https://here/three"
    assert not {"truncated", "artifactId", "totalCharacters"} & part.keys()


def test_an_event_is_shown_with_its_place_and_its_body() -> None:
    note = NoteEmitted(event_type="step", message="half way")
    path = CallPath("task_1/1/plan#a")
    record = Record(LogId("conv_1"), 7, Moment(1000), TaskId("task_1"), path, note)
    assert event_part(record) == {
        "seq": 7,
        "at": "1970-01-01T00:00:01.000Z",
        "kind": "note_emitted",
        "path": path,
        "body": to_wire(note),
    }


@pytest.mark.parametrize(("log_id", "conversation"), [("conv_1", "conv_1"), ("task_1", None)])
def test_a_task_with_its_own_log_has_no_conversation(log_id: str, conversation: str | None) -> None:
    task = TaskRecord(
        task_id=TaskId("task_1"),
        log_id=LogId(log_id),
        kind="message",
        status=TaskStatus.RUNNING,
        profile_id=ProfileId("ann"),
        agent="clerk",
        created_at=Moment(0),
        first_seq=1,
        started_at=Moment(1000),
    )
    assert task_part(task) == {
        "id": "task_1",
        "kind": "message",
        "status": "running",
        "agentId": "clerk",
        "conversationId": conversation,
        "createdAt": "1970-01-01T00:00:00.000Z",
        "startedAt": "1970-01-01T00:00:01.000Z",
        "endedAt": None,
        "rootId": "task_1",
    }


def test_a_failure_has_no_result() -> None:
    """The chat loop's promise of an error: `success: false`, `error`; no `result` key."""
    error = ErrorDetail(code="NO_PAPER", message="no paper", suggestion="Add some.")
    settled = CallSettled(
        tool_id="print", envelope=Envelope(Status.FAILED, None, error), call_id=CallId("tc_1")
    )
    assert result_part(settled, str) == {
        "type": "tool_result",
        "toolCallId": "tc_1",
        "name": "print",
        "success": False,
        "error": "no paper",
        "code": "NO_PAPER",
        "suggestion": "Add some.",
    }


def test_a_question_shows_only_what_a_person_needs() -> None:
    assert question_part(ASKED) == {
        "id": "q_1",
        "kind": "ask_user",
        "text": "Which?",
        "path": ["plan", "ask_user"],
        "options": [{"label": "One", "value": "1"}],
    }


FORMS = [
    {"type": "select", "multiSelect": True, "allowCustom": False},
    {"type": "input", "defaultValue": "tea"},
    {"type": "confirm"},
    None,
]


@pytest.mark.parametrize("form", FORMS)
def test_a_question_with_a_type_shows_its_form(form: dict[str, Any] | None) -> None:
    part = question_part(replace(ASKED, form=form, schema={"type": "string"}))
    assert part.get("form") == form
    assert part["schema"] == {"type": "string"}


def test_a_question_in_a_list_has_its_status() -> None:
    assert question_record(RECORD) == question_part(ASKED) | {
        "status": "open",
        "taskId": "task_1",
        "conversationId": "conv_1",
        "agentId": "assistant",
        "createdAt": "1970-01-01T00:00:00.000Z",
    }


def test_an_answered_question_shows_the_answer_and_its_author() -> None:
    record = replace(
        RECORD,
        status=QuestionStatus.ANSWERED,
        answered_at=Moment(1000),
        answered_by=ProfileId("ann"),
        answer={"value": "1"},
    )
    result = question_record(record)
    assert (result["answeredAt"], result["answeredBy"]) == ("1970-01-01T00:00:01.000Z", "ann")
    assert result["answer"] == {"value": "1"}


FILE = StoredFile(blob_id=BlobId("ab"), mime_type="text/plain", size=3, is_image=False, name="a")


OPEN = [replace(each, spec=replace(each.spec, direct_call=True)) for each in TOOLS]
"""Open to every tool: here no skill grants them."""


@tool(effect="write")
async def report(ctx: ToolContext) -> list[Any]:
    """Attach a report twice."""
    inputs = {"base64_data": "YWJj", "media_type": "text/plain", "filename": "a.txt"}
    kept = await ctx.call("media_push_base64", inputs)
    media_id = {"media_id": kept.output["media_id"]}
    sent = [await ctx.call("send_media_attachment", media_id) for _ in range(2)]
    return [each.output for each in sent]


async def test_a_tool_below_a_tool_attaches_to_the_answer() -> None:
    """Wider §8: "called by a model or by a script below it"; "each media id once"."""
    model = ScriptedModel({"Go": [call("report"), say("Here it is.")], "More": [say("No.")]})
    async with served(model=model, tools=[report, *OPEN]) as server:
        streamed = [frame for _, frame in frames((await server.stream("Go")).text)]
        complete = streamed[-1] if streamed[-1]["type"] == "message_complete" else streamed[-2]
        (attached,) = complete["attachments"]
        assert (attached["name"], attached["mimeType"], attached["bytes"]) == (
            *("a.txt", "text/plain"),
            3,
        )
        assert attached["mediaId"].startswith("media_")
        content = await server.client.get(attached["url"])
        assert content.content == b"abc"
        query = {"conversationId": complete["conversationId"]}
        answer = (await server.client.get(CHAT, params=query)).json()["messages"][-1]
        (kept,) = answer["metadata"]["attachments"]
        assert {**kept, "url": ""} == {**attached, "url": ""}
        again = [frame for _, frame in frames((await server.stream("More", **query)).text)]
        assert not any("attachments" in each for each in again)


OUTPUT = {"send_as_attachment": True, "media_id": "m"}


@pytest.mark.parametrize(
    ("settled", "count"),
    [
        ({"envelope": Envelope.success(OUTPUT), "files": (FILE,)}, 1),
        ({"envelope": Envelope.success({"send_as_attachment": False, "media_id": "m"})}, 0),
        ({"envelope": Envelope.success(OUTPUT), "files": (FILE,), "tool_id": "mine"}, 0),
        ({"envelope": Envelope.success("text"), "files": (FILE,)}, 0),
        ({"envelope": Envelope.success(None)}, 0),
    ],
)
def test_only_media_sent_as_attachments_are_attached(settled: dict[str, Any], count: int) -> None:
    attachments = Attachments()
    for _ in range(2):
        attachments.add(CallSettled(**{"tool_id": "send_media_attachment", **settled}))
    assert len(attachments.parts(lambda blob_id: f"/{blob_id}")) == count


def test_an_answer_has_at_most_twenty_attachments() -> None:
    attachments = Attachments()
    for number in range(25):
        output = {"send_as_attachment": True, "media_id": f"m{number}"}
        settled = CallSettled(
            tool_id="send_media_attachment", envelope=Envelope.success(output), files=(FILE,)
        )
        attachments.add(settled)
    assert len(attachments.parts(lambda _: "")) == 20
