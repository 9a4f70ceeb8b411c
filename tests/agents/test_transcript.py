"""The transcript for a model: the newest part that fits, whole calls, the same after a restart."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from penstock.agents.transcript import Transcript, room
from penstock.core.call import ToolCall
from penstock.core.errors import ContextTooLarge
from penstock.core.events.events import CallSettled, Event, TaskStarted
from penstock.core.ids import ArtifactId, BlobId, CallId, TaskId
from penstock.core.json_values.json_text import compact
from penstock.core.messages import (
    AssistantMessage,
    Message,
    StoredFile,
    ToolMessage,
    Usage,
    UserMessage,
)
from penstock.core.text import estimate_tokens
from penstock.engine.session_state import SessionState
from penstock.models.image_rules import READS_ALL, FileRules
from penstock.models.model import ModelCard
from tests.kit.session_events import LOG, ended, message, outcome, path_of, reply

Files = tuple[StoredFile, ...]
LONG = "x" * 400
"""104 tokens by estimate."""


class Talk:
    """A session that the test extends."""

    def __init__(self) -> None:
        self.state = SessionState(LOG)
        self._tasks = 0

    def task(self, content: str, answer: str = "", counted: int = 0, files: Files = ()) -> "Talk":
        self._tasks += 1
        self.happen(message(content, attachments=files), TaskStarted())
        if answer:
            self.happen(reply(1, text=answer, usage=Usage(input_tokens=counted)), ended())
        return self

    def happen(self, *events: Event) -> "Talk":
        task_id = TaskId(f"task_{self._tasks}")
        for event in events:
            path = path_of(str(event.call_id)) if isinstance(event, CallSettled) else None
            self.state.apply(event, task_id, path, 0)
        return self

    def round(self, name: str, context: str, counted: int = 0) -> "Talk":
        usage = Usage(input_tokens=counted)
        number = 1 + (self.state.current.main.iteration if self.state.current else 0)
        return self.happen(reply(number, name, usage=usage), outcome(name, context=context))

    def transcript(self, limit: int, system: str = "") -> Transcript:
        assert self.state.current
        return Transcript(self.state.current.main, system=system, limit=limit)


def contents(messages: Sequence[Message]) -> list[str]:
    return [each.content for each in messages]


def test_messages_that_fit_are_read_whole_and_not_copied() -> None:
    talk = Talk().task("one", "two").task("three")
    assert talk.transcript(1000).messages() is talk.state.messages.entries


def test_whole_earlier_tasks_go_first_until_four_fifths_of_the_limit() -> None:
    """Five tasks of 208 tokens and a question: over 1,000, so down to 800 at most."""
    talk = Talk()
    for number in range(5):
        talk.task(f"{number}" + LONG[1:], LONG)
    talk.task("now")
    read = talk.transcript(1000).messages()
    assert [each[0] for each in contents(read)] == ["2", "x", "3", "x", "4", "x", "n"]
    assert isinstance(read[0], UserMessage)


def test_a_call_is_never_parted_from_its_result() -> None:
    talk = Talk().task("old").round("a", LONG).round("b", LONG)
    talk.happen(reply(3, text="done"), ended()).task("new")
    for limit in range(20, 400, 7):
        try:
            read = talk.transcript(limit).messages()
        except ContextTooLarge:
            continue
        calls = sum(len(each.calls) for each in read if isinstance(each, AssistantMessage))
        assert calls == sum(isinstance(each, ToolMessage) for each in read)


def test_the_oldest_results_of_the_task_give_way_but_not_those_of_the_last_round() -> None:
    talk = Talk().task("look").round("a", LONG).round("b", LONG).round("c", LONG)
    read = contents(talk.transcript(270).messages())
    assert read[2] == f"[result removed: {LONG[:199]}…]"
    assert read[4] == f"[result removed: {LONG[:199]}…]"
    assert read[6] == LONG


def test_a_removed_result_names_its_preview_and_where_the_whole_is() -> None:
    talk = Talk().task("look")
    kept = {"preview": "Found 5 results", "artifact_id": ArtifactId("art_1")}
    talk.happen(reply(1, "a"), outcome("a", context=LONG, **kept)).round("b", "small")
    read = contents(talk.transcript(100).messages())
    assert read[2] == "[result removed: Found 5 results; artifact art_1]"


def test_a_task_that_is_too_large_by_itself_is_an_error() -> None:
    talk = Talk().task("before", "x").task(LONG)
    with pytest.raises(ContextTooLarge, match=r"about 1\d\d tokens; the model reads 100"):
        talk.transcript(100).messages()


def test_a_task_that_just_fits_is_read() -> None:
    alone = Talk().task(LONG).transcript(10**6)
    alone.messages()
    talk = Talk().task("before", "x").task(LONG)
    assert contents(talk.transcript(alone.estimated).messages()) == [LONG]
    with pytest.raises(ContextTooLarge):
        talk.transcript(alone.estimated - 1).messages()


def test_the_count_of_the_provider_corrects_the_sum() -> None:
    talk = Talk().task("old" + LONG, LONG).task("new")
    transcript = talk.transcript(1000)
    assert len(transcript.messages()) == 3
    estimated = transcript.estimated
    assert estimated == talk.state.messages.tokens + estimate_tokens("")
    transcript.measure(950)
    talk.happen(reply(1, "a", usage=Usage(input_tokens=950)), outcome("a", context=LONG))
    assert len(transcript.messages()) == 3
    assert transcript.estimated < 1000


def test_the_usage_of_a_provider_also_corrects_the_next_estimate() -> None:
    """The page: "the last real usage of the provider corrects the sum"."""
    talk = Talk().task("one", "two", counted=900).task("three")
    transcript = talk.transcript(1000)
    transcript.messages()
    assert transcript.estimated == 900 + estimate_tokens("two") + estimate_tokens("three")


def test_arguments_of_calls_count_as_the_model_reads_them() -> None:
    talk = Talk().task("look")
    before = talk.state.messages.tokens
    asked = ToolCall(CallId("a"), "write", {"text": LONG})
    broken = ToolCall(CallId("b"), "write", {}, arguments_text="{" + LONG)
    talk.happen(replace(reply(1), calls=(asked, broken)))
    assert talk.state.messages.tokens - before == estimate_tokens(
        compact(asked.arguments) + "{" + LONG
    )


def test_a_trimmed_task_reduces_the_counted_tokens_by_its_share() -> None:
    """A text that is twice as long as by estimate still fits once two of five tasks are dropped."""
    talk = Talk()
    for number in range(5):
        talk.task(f"{number}" + LONG[1:], LONG)
    counted = 2 * (talk.state.messages.tokens - estimate_tokens(LONG))
    talk.task("now").happen(reply(1, "a", usage=Usage(input_tokens=counted)), outcome("a"))
    read = talk.transcript(1800).messages()
    assert [each[0] for each in contents(read)[:1]] == ["2"]


def test_a_regenerated_task_keeps_its_counts() -> None:
    talk = Talk().task("one", "two", counted=30).task("three", "four", counted=9_000)
    talk.transcript(10_000)
    talk.state.messages.forget(TaskId("task_2"))
    assert talk.state.messages.requests == [(1, estimate_tokens("one"), 30)]
    assert talk.state.messages.known is None


@pytest.mark.parametrize("limit", [200, 400, 900])
@pytest.mark.parametrize("counts", [[0, 90, 0, 600, 30], [500, 50, 880, 0, 100]])
def test_a_later_task_is_trimmed_alike_in_a_process_that_was_there_and_one_that_was_not(
    limit: int, counts: list[int]
) -> None:
    """The page: "Trimming is a pure function of the log, so a restart trims alike."."""
    talk = Talk()
    for number, counted in enumerate(counts):
        talk.task(f"{number}" + LONG[: 150 * number], "so", counted).task("and", "?")
        talk.task("look").round("a", LONG, counted)
        warm = talk.transcript(limit)
        talk.state.messages.known = None
        cold = talk.transcript(limit)
        assert read_or_refused(cold) == read_or_refused(warm)
        talk.happen(reply(2, text="Done."), ended())


def read_or_refused(transcript: Transcript) -> tuple[list[str] | None, int]:
    try:
        return contents(transcript.messages()), transcript.estimated
    except ContextTooLarge:
        return None, transcript.estimated


def test_a_provider_that_does_not_count_corrects_nothing() -> None:
    talk = Talk().task("new")
    transcript = talk.transcript(1000)
    transcript.messages()
    before = transcript.estimated
    transcript.measure(0)
    transcript.messages()
    assert transcript.estimated == before


@pytest.mark.parametrize("limit", [120, 150, 200, 260, 350, 500, 800])
@pytest.mark.parametrize(
    "counts", [[0] * 6, [90, 180, 300, 420, 500, 600], [400, 30, 30, 200, 0, 9]]
)
def test_trimming_depends_only_on_the_log(limit: int, counts: list[int]) -> None:
    """A transcript that saw the whole task and a new one return the same messages."""
    talk = Talk().task("a" + LONG, "b").task("c", "d" + LONG).task("e")
    lived = talk.transcript(limit)
    for number, counted in enumerate(counts):
        again = talk.transcript(limit)
        try:
            read = contents(lived.messages())
        except ContextTooLarge:
            with pytest.raises(ContextTooLarge):
                again.messages()
            return
        assert contents(again.messages()) == read
        assert again.estimated == lived.estimated
        lived.measure(counted)
        talk.round(f"r{number}", LONG[: 40 * number], counted)


@pytest.mark.parametrize(
    ("window", "asked", "expected"),
    [
        (None, None, 32_000),
        (100_000, None, 92_952),
        (100_000, 500, 500),
        (None, 500, 500),
        (10, None, 1),
    ],
)
def test_how_much_a_model_may_read(window: int | None, asked: int | None, expected: int) -> None:
    """What the agent says, else the window less the answer less 5 %, else 32,000."""
    assert room(window, asked, 2048) == expected


def test_a_window_is_a_list_without_a_copy() -> None:
    talk = Talk()
    for number in range(5):
        talk.task(f"{number}" + LONG[1:], LONG)
    talk.task("now")
    read = talk.transcript(1000).messages()
    assert read[-1] == UserMessage("now")
    assert read[0].content.startswith("2")
    assert contents(read[1:3]) == [LONG, "3" + LONG[1:]]
    assert len(read) == len(list(read)) == 7
    talk.happen(reply(1, text="later"))
    assert len(read) == 8


def test_a_changed_limit_trims_from_the_whole_transcript() -> None:
    """An agent whose limit or instructions were changed reads the log as one that began so."""
    talk = Talk().task("one" + LONG, "so", 300).task("two" + LONG, "so", 600).task("three")
    talk.transcript(2_000).messages()
    for limit, system in ((300, ""), (2_000, LONG), (2_000, "")):
        warm = read_or_refused(talk.transcript(limit, system))
        talk.state.messages.known = None
        assert warm == read_or_refused(talk.transcript(limit, system))


def test_messages_that_fit_exactly_are_read_whole() -> None:
    talk = Talk().task("one", "two").task("look").round("a", LONG).round("b", LONG)
    everything = talk.transcript(10**6)
    everything.messages()
    read = talk.transcript(everything.estimated).messages()
    assert read is talk.state.messages.entries
    less = talk.transcript(everything.estimated - 1).messages()
    assert contents(less)[0] == "look"


@pytest.mark.parametrize("system", ["", "s" * 40, LONG])
def test_other_instructions_count_from_the_next_request_on(system: str) -> None:
    talk = Talk().task("hello")
    transcript = talk.transcript(1000, "s" * 200)
    transcript.messages()
    before = transcript.estimated
    transcript.begin(system)
    transcript.messages()
    assert transcript.estimated - before == estimate_tokens(system) - estimate_tokens("s" * 200)
    begun_so = talk.transcript(1000, system)
    begun_so.messages()
    assert transcript.estimated == begun_so.estimated


def test_each_count_of_the_provider_replaces_the_one_before() -> None:
    talk = Talk().task("hello")
    transcript = talk.transcript(1000)
    for counted in (500, 300, 700):
        transcript.messages()
        transcript.measure(counted)
        transcript.messages()
        assert transcript.estimated == counted


def picture() -> StoredFile:
    return StoredFile(
        blob_id=BlobId("a" * 64),
        mime_type="image/png",
        size=9,
        is_image=True,
        width=280,
        height=280,
    )


CLAUDE = ModelCard(model_id="c", name="claude-opus-4-1", provider="anthropic", images=True)
BLIND = ModelCard(model_id="b", name="b", provider="b")


def estimated(talk: Talk, card: ModelCard | None = None, *, tool_images: bool = False) -> int:
    assert talk.state.current
    rules = FileRules(card, tool_images=tool_images)
    transcript = Transcript(talk.state.current.main, system="", limit=10_000, reads=rules)
    transcript.messages()
    return transcript.estimated


SEES = replace(BLIND, images=True)


@pytest.mark.parametrize(
    ("card", "tokens"), [(None, 1500), (CLAUDE, 100), (BLIND, 30), (SEES, 1500)]
)
def test_images_count_by_the_rule_of_their_provider(card: ModelCard | None, tokens: int) -> None:
    plain = Talk()
    plain.happen(message("Hi"), TaskStarted())
    talk = Talk()
    talk.happen(message("Hi", attachments=(picture(),)), TaskStarted())
    assert estimated(talk, card) - estimated(plain, card) == tokens


@pytest.mark.parametrize(("wanted", "tokens"), [(True, 100), (False, 0)])
def test_images_of_results_count_if_the_agent_reads_them(wanted: bool, tokens: int) -> None:
    talk, plain = Talk(), Talk()
    for each, files in ((talk, (picture(),)), (plain, ())):
        each.happen(message("Hi"), TaskStarted())
        each.happen(reply(1, "a"), outcome("a", files=files))
    difference = estimated(talk, CLAUDE, tool_images=wanted) - estimated(plain, CLAUDE)
    assert difference == tokens


def test_tasks_with_images_are_dropped_like_others_and_the_same_after_a_restart() -> None:
    talk = Talk()
    for number in range(5):
        talk.task(f"{number}", "ok", files=(picture(),) * 2)
    talk.task("now")
    assert talk.state.current
    for rules, kept in ((READS_ALL, 1), (FileRules(CLAUDE), 11)):
        for _ in range(2):
            transcript = Transcript(talk.state.current.main, system="", limit=2900, reads=rules)
            assert len(transcript.messages()) == kept
