"""Frames of the chat stream: each kind, and the end of a stream."""

from penstock.core.call import CallPath
from penstock.core.envelope import Envelope, ErrorDetail
from penstock.core.events.child_events import Join
from penstock.core.events.events import (
    CallRequested,
    CallSettled,
    CancelRequested,
    MessageReceived,
    NoteEmitted,
    QuestionAnswered,
    ReplyRestarted,
    TaskEnded,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import RunEnded
from penstock.core.events.history_events import Erased
from penstock.core.ids import (
    ArtifactId,
    BlobId,
    CallId,
    MessageId,
    ProfileId,
    QuestionId,
    SessionId,
    TaskId,
)
from penstock.core.messages import StoredFile
from penstock.core.task import QuestionStatus, TaskStatus
from penstock.server.streams.frame import Position
from penstock.server.streams.wire import ChatFrames, StreamView
from tests.kit.conversation_events import (
    START,
    Story,
    approval,
    frames_of,
    kinds,
    no_tools,
    spent,
    tool_call,
)


def test_a_restarted_reply_is_retracted() -> None:
    """If the reply was restarted, `content_reset` comes first and `n` no longer counts."""
    story = Story(1, "msg_01", "msg_02")
    story.begin(1)
    story.say("Hello, wor")
    story.add(ReplyRestarted(iteration=1))
    story.begin(1)
    story.say("Good day")
    story.whole()
    again = frames_of(story, [*story.stored], Position(3, 10))
    assert kinds(again) == ["4 content_reset", "4.0 thinking", "4.8 content_delta"]
    assert frames_of(story)[3:] == again
    assert again[0][1] == {"type": "content_reset", "iteration": 1}


def test_a_restarted_closing_reply_is_retracted_as_closing() -> None:
    story = Story(1, "msg_01", "msg_02")
    story.add(ReplyRestarted(iteration=8, closing=True))
    assert frames_of(story)[-1][1] == {"type": "content_reset", "closing": True}


def test_an_answer_without_a_model_is_a_closing_text() -> None:
    story = Story(1, "msg_01", "msg_02")
    story.end("I could not produce an answer.", 0, spent(0, 0, 0, 0), "stop")
    assert frames_of(story)[1] == (
        Position(3, 30),
        {"type": "content_delta", "closing": True, "delta": "I could not produce an answer."},
    )


def test_a_clipped_result_is_shown_as_text() -> None:
    story = Story(1, "msg_01", "msg_02")
    settled = CallSettled(
        tool_id="add",
        envelope=Envelope.success({"big": "…"}),
        call_id=CallId("tc_1"),
        context='{"big"\n[truncated]',
        preview="1 field: big",
        artifact_id=ArtifactId("art_1"),
        total_characters=10_001,
    )
    story.add(settled)
    assert frames_of(story)[-1][1] == {
        "type": "tool_result",
        "toolCallId": "tc_1",
        "name": "add",
        "success": True,
        "result": '{"big"\n[truncated]',
        "resultPreview": "1 field: big",
        "truncated": True,
        "totalCharacters": 10_001,
        "artifactId": "art_1",
    }


def test_images_and_files_are_links() -> None:
    story = Story(1, "msg_01", "msg_02")
    image = StoredFile(
        blob_id=BlobId("a"), mime_type="image/png", size=9, is_image=True, width=2, height=3
    )
    file = StoredFile(blob_id=BlobId("b"), mime_type="application/pdf", size=7, is_image=False)
    settled = CallSettled(
        tool_id="shot",
        envelope=Envelope.success({}),
        call_id=CallId("tc_1"),
        files=(image, file),
    )
    story.add(settled)
    frame = frames_of(story)[-1][1]
    assert frame["imageUrl"] == "/api/blobs/a"
    assert frame["images"] == [
        {"url": "/api/blobs/a", "mimeType": "image/png", "bytes": 9, "width": 2, "height": 3}
    ]
    assert frame["files"] == [{"url": "/api/blobs/b", "mimeType": "application/pdf", "bytes": 7}]


def test_nested_calls_have_no_frames() -> None:
    story = Story(1, "msg_01", "msg_02")
    story.add(CallSettled(tool_id="add", envelope=Envelope.success(3)))
    assert kinds(frames_of(story)) == ["3 message_start"]


def test_a_task_that_failed_ends_in_an_error() -> None:
    story = Story(1, "msg_01", "msg_02")
    error = ErrorDetail(code="MODEL_UNAVAILABLE", message="no answer", retryable=True)
    story.add(TaskEnded(status=TaskStatus.FAILED, error=error))
    assert frames_of(story)[-1][1] == {
        "type": "error",
        "message": "no answer",
        "code": "MODEL_UNAVAILABLE",
        "retryable": True,
        "taskId": "task_01",
    }


def test_a_withdrawn_question_is_a_frame() -> None:
    story = Story(1, "msg_01", "msg_02")
    event = QuestionAnswered(
        question_id=QuestionId("q_1"), status=QuestionStatus.CANCELLED, answer={"expired": True}
    )
    story.add(event)
    assert frames_of(story)[-1][1] == {
        "type": "question_answered",
        "id": "q_1",
        "status": "cancelled",
    }


def two_tasks() -> Story:
    """Two messages, the second of them sent while the first was answered."""
    story = no_tools()
    first = story.task_id
    end = story.items.pop()
    story.seq -= 1
    story.task_id = TaskId("task_02")
    story.add(MessageReceived(message_id=MessageId("msg_03"), content="?"))
    story.task_id = first
    assert hasattr(end, "event")
    story.add(end.event)
    story.task_id = TaskId("task_02")
    story.add(TaskStarted(model="offline"))
    return story


def chat_frames(only: str | None = None) -> ChatFrames:
    """Return a fold of one task, or of all."""
    task_id = None if only is None else TaskId(only)
    return ChatFrames(StreamView(SessionId("conv_01"), str, 8, task_id), START)


def test_a_stream_continues_while_a_task_is_queued() -> None:
    story, frames = two_tasks(), chat_frames()
    frames.feed(story.items[:-1])
    assert (frames.is_over, frames.is_at_work) == (False, True)
    assert kinds(frames.feed(story.items[-1:])) == ["7 message_start"]
    assert (frames.is_over, frames.is_at_work) == (False, True)


def test_a_following_stream_continues_after_the_last_task() -> None:
    """`follow=true` (do not end with the last task)."""
    view = StreamView(SessionId("conv_01"), str, 8, follows=True)
    frames = ChatFrames(view, START)
    frames.feed(no_tools().items)
    assert (frames.is_over, frames.is_at_work) == (False, False)


def test_a_stream_of_one_task_ends_with_it() -> None:
    story, frames = two_tasks(), chat_frames("task_01")
    assert kinds(frames.feed(story.items))[-1] == "6 message_complete"
    assert frames.is_over


def test_a_stream_of_a_queued_task_shows_no_earlier_task() -> None:
    story, frames = two_tasks(), chat_frames("task_02")
    assert kinds(frames.feed(story.items)) == ["7 message_start"]
    assert frames.is_at_work


def test_a_stream_ends_at_a_question_until_it_is_answered() -> None:
    story, frames = approval(), chat_frames()
    suspended = next(n for n, each in enumerate(story.items) if getattr(each, "seq", 0) == 6)
    frames.feed(story.items[: suspended + 1])
    assert (frames.is_over, frames.is_at_work) == (True, False)
    frames.feed(story.items[suspended + 1 : suspended + 2])
    assert (frames.is_over, frames.is_at_work) == (False, True)


def test_a_stream_continues_after_a_cancel_until_the_task_ends() -> None:
    story, frames = approval(), chat_frames()
    del story.items[-9:]
    frames.feed(story.items)
    story.add(CancelRequested())
    frames.feed(story.items[-1:])
    assert frames.is_at_work


def test_a_task_cancelled_in_the_queue_ends_in_an_error() -> None:
    story, frames = two_tasks(), chat_frames()
    frames.feed(story.items[:-1])
    story.items.pop()
    error = ErrorDetail(code="CANCELLED", message="the task was cancelled")
    story.add(TaskEnded(status=TaskStatus.CANCELLED, error=error))
    assert kinds(frames.feed(story.items[-1:])) == ["8 error"]
    assert frames.is_over


def cancelled_in_line(story: Story) -> None:
    """Let a second message wait, and be cancelled."""
    first, story.task_id = story.task_id, TaskId("task_09")
    story.add(MessageReceived(message_id=MessageId("msg_09"), content="?"))
    error = ErrorDetail(code="CANCELLED", message="the task was cancelled")
    story.add(TaskEnded(status=TaskStatus.CANCELLED, error=error))
    story.task_id = first


def test_a_cancel_in_the_queue_does_not_disturb_the_current_reply() -> None:
    """Ids rise strictly, and the joined deltas of the last reply equal `content`."""
    story = Story(1, "msg_01", "msg_02")
    story.begin(1)
    story.say("Hel")
    cancelled_in_line(story)
    story.say("lo")
    story.whole()
    story.end("Hello", 1, spent(1, 1, 1, 0))
    live = frames_of(story)
    shown = ["3 message_start", "3.0 thinking", "3.3 content_delta", "3.5 content_delta"]
    assert kinds(live) == [*shown, "5 error", "7 message_complete"]
    assert kinds(frames_of(story, [*story.stored], Position(3, 3))) == kinds(live)[3:]
    assert frames_of(story, [*story.stored], Position(5)) == live[-1:]


def test_a_cancel_in_the_queue_is_shown_while_a_tool_runs() -> None:
    story = Story(1, "msg_01", "msg_02")
    story.ask(1, tool_call(1, "look"))
    cancelled_in_line(story)
    assert kinds(frames_of(story))[-1] == "6 error"


def test_direct_calls_of_a_conversation_have_no_frames() -> None:
    story = Story(1, "msg_01", "msg_02")
    del story.items[1:]
    story.seq = 1
    story.add(CallRequested(tool_id="add", input={}, profile_id=ProfileId("local")))
    story.add(TaskStarted())
    story.add(TaskEnded(status=TaskStatus.SUCCEEDED, envelope=Envelope.success(3)))
    frames = chat_frames()
    assert frames.feed(story.items) == []
    assert not frames.is_at_work


def test_a_message_that_was_erased_has_no_id() -> None:
    story = Story(1, "msg_01", "msg_02")
    del story.items[1:]
    story.seq = 1
    story.add(Erased())
    story.add(TaskStarted(model="offline"))
    assert frames_of(story)[0][1]["userMessageId"] is None


def test_progress_of_a_tool_is_a_note() -> None:
    """Events of `emitEvent` are shown live, "in CLI and stream"."""
    story = Story(1, "msg_01", "msg_02")
    story.add(NoteEmitted(event_type="saved", title="Saved", payload={"n": 1}))
    story.add(NoteEmitted(event_type="late", level="warning"))
    assert [frame for _, frame in frames_of(story)[1:]] == [
        {"type": "note", "event": "saved", "level": "info", "title": "Saved", "payload": {"n": 1}},
        {"type": "note", "event": "late", "level": "warning"},
    ]
    assert kinds(frames_of(story, [*story.stored], Position(4))) == ["5 note"]


RUN, OTHER = TaskId("task_08"), TaskId("task_09")


def test_a_stream_continues_while_its_task_waits_for_other_tasks() -> None:
    story = Story(1, "msg_01", "msg_02")
    join = Join(CallPath("task_1/1/plan#ab"), (RUN,))
    view = StreamView(
        session_id=SessionId(story.log_id),
        link_to=lambda stored: stored.blob_id,
        max_iterations=8,
    )
    frames = ChatFrames(view, START)
    frames.feed(story.items)
    story.add(TaskSuspended(questions=(), joins=(join,)))
    assert frames.feed(story.items[-1:]) == []
    assert not frames.is_over


def test_a_stream_ends_while_its_task_waits_for_a_run() -> None:
    story = Story(1, "msg_01", "msg_02")
    story.add(TaskSuspended(questions=(), runs=(RUN,)))
    view = StreamView(
        session_id=SessionId(story.log_id),
        link_to=lambda stored: stored.blob_id,
        max_iterations=8,
    )
    frames = ChatFrames(view, START)
    frames.feed(story.items)
    assert frames.is_over
    story.add(RunEnded(run_id=OTHER))
    frames.feed(story.items[-1:])
    assert frames.is_over
    story.add(RunEnded(run_id=RUN))
    frames.feed(story.items[-1:])
    assert not frames.is_over
    assert frames_of(story)[-1][1] == {
        "type": "suspended",
        "taskId": "task_01",
        "questions": [],
        "runs": ["task_08"],
    }
