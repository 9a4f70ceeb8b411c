"""The messages for a model: few enough, whole calls, the same after a restart."""

import pytest
from msgspec.structs import replace

from penstock.agents.transcript import Transcript, room
from penstock.core.call import ToolCall
from penstock.core.events.events import TaskStarted
from penstock.core.ids import ArtifactId, BlobId, CallId, TaskId
from penstock.core.json_values.json_text import compact
from penstock.core.messages import (
    AssistantMessage,
    StoredFile,
    ToolMessage,
    Usage,
    UserMessage,
)
from penstock.core.text import estimate_tokens
from penstock.models.image_rules import READS_ALL, FileRules
from penstock.models.model import ModelCard
from tests.kit.growing_talk import Talk, contents
from tests.kit.session_events import ended, message, outcome, reply

LONG = "x" * 400
"""104 tokens by estimate."""


def test_messages_that_fit_are_read_whole_and_not_copied() -> None:
    talk = Talk().task("one", "two").task("three")
    assert talk.transcript(1000).messages() is talk.state.messages.entries


def test_whole_earlier_tasks_go_down_to_half_of_the_limit() -> None:
    """Five tasks of 208 tokens and a question: over 800 of 1,000, so down to 500 at most."""
    talk = Talk()
    for number in range(5):
        talk.task(f"{number}" + LONG[1:], LONG)
    talk.task("now")
    transcript = talk.transcript(1000)
    assert [each[0] for each in talk.read(transcript)] == ["3", "x", "4", "x", "n"]
    assert transcript.estimated <= 500
    assert isinstance(talk.state.messages.entries[0], UserMessage)


def test_a_history_of_less_than_four_fifths_of_the_limit_stays() -> None:
    talk = Talk().task("one" + LONG, LONG).task("now")
    size = Transcript(talk.current, system="", limit=10**6)
    size.messages()
    for limit, is_crowded in ((size.estimated / 0.8 + 1, False), (size.estimated / 0.8 - 2, True)):
        transcript = talk.transcript(int(limit))
        transcript.messages()
        assert transcript.is_crowded is is_crowded


def test_results_of_earlier_tasks_become_previews_before_a_task_is_left_out() -> None:
    talk = Talk()
    for number in range(4):
        talk.task(f"{number}").round(f"a{number}", 3 * LONG)
        talk.happen(reply(2, text="done"), ended())
    talk.task("now")
    read = talk.read(talk.transcript(1400))
    kept = [part for number in range(4) for part in (f"{number}", "", "[re", "don")]
    assert [each[:3] for each in read] == [*kept, "now"]


def test_the_history_is_shortened_once_at_the_beginning_of_a_task() -> None:
    talk = Talk().task("one" + LONG, LONG).task("now" + LONG)
    transcript = talk.transcript(320)
    assert len(talk.read(transcript)) == 1
    again = talk.transcript(320)
    again.messages()
    assert not again.is_crowded


def test_within_a_task_the_beginning_stays_while_the_request_fits() -> None:
    """80 % of the limit is for tasks that begin."""
    talk = Talk().task("old" + LONG, LONG).task("look").round("a", 2 * LONG).round("b", LONG)
    transcript = talk.transcript(600)
    transcript.messages()
    assert 480 < transcript.estimated <= 600
    assert not transcript.is_crowded


def test_within_a_task_its_own_results_go_first() -> None:
    talk = Talk().task("old" + LONG, LONG).task("look")
    for name in "abcdef":
        talk.round(name, LONG, preview="seen")
    transcript = talk.transcript(840)
    read = talk.read(transcript)
    assert read[:2] == ["old" + LONG, LONG]
    assert [each[:1] for each in read[4::2]] == ["[", "[", "[", "[", "[", "x"]
    assert transcript.estimated <= 420


def test_if_they_are_not_enough_earlier_tasks_go_too() -> None:
    talk = Talk().task("old" + LONG, LONG).task("look").round("a", "a").round("b", 3 * LONG)
    transcript = talk.transcript(500)
    assert talk.read(transcript) == ["look", "", "a", "", 3 * LONG]


def test_a_call_is_never_parted_from_its_result() -> None:
    for limit in range(20, 400, 7):
        talk = Talk().task("old").round("a", LONG).round("b", LONG)
        talk.happen(reply(3, text="done"), ended()).task("new").round("c", LONG)
        talk.read(talk.transcript(limit))
        read = talk.state.messages.entries
        calls = sum(len(each.calls) for each in read if isinstance(each, AssistantMessage))
        assert calls == sum(isinstance(each, ToolMessage) for each in read)


def test_the_oldest_results_of_the_task_give_way_but_not_those_of_the_last_round() -> None:
    talk = Talk().task("look").round("a", LONG).round("b", LONG).round("c", LONG)
    read = talk.read(talk.transcript(270))
    assert read[2] == f"[result removed: {LONG[:199]}…]"
    assert read[4] == f"[result removed: {LONG[:199]}…]"
    assert read[6] == LONG


def test_a_removed_result_names_its_preview_and_where_the_whole_is() -> None:
    talk = Talk().task("look")
    kept = {"preview": "Found 5 results", "artifact_id": ArtifactId("art_1")}
    talk.happen(reply(1, "a"), outcome("a", context=LONG, **kept)).round("b", "small")
    read = talk.read(talk.transcript(100))
    assert read[2] == "[result removed: Found 5 results; artifact art_1]"


def test_what_the_provider_refused_is_halved_whatever_the_estimate_is() -> None:
    talk = Talk()
    for number in range(5):
        talk.task(f"{number}" + LONG[1:], LONG)
    talk.task("now")
    transcript = talk.transcript(10**6)
    transcript.messages()
    before = transcript.estimated
    assert [each[0] for each in talk.read(transcript, too_long=True)] == ["3", "x", "4", "x", "n"]
    assert transcript.estimated <= before / 2


def test_nothing_is_cut_from_a_first_message() -> None:
    talk = Talk().task(LONG)
    transcript = talk.transcript(50)
    transcript.messages()
    assert transcript.is_crowded
    assert transcript.cut(()) is None
    assert transcript.cut((), too_long=True) is None


def test_a_task_that_just_fits_is_read() -> None:
    alone = Talk().task(LONG).transcript(10**6)
    alone.messages()
    talk = Talk().task("before", "x").task(LONG)
    transcript = talk.transcript(alone.estimated)
    assert talk.read(transcript) == [LONG]
    assert transcript.estimated == transcript.limit
    assert not transcript.is_crowded


def test_the_count_of_the_provider_corrects_the_sum() -> None:
    talk = Talk().task("old" + LONG, LONG).task("new")
    transcript = talk.transcript(1000)
    assert len(transcript.messages()) == 3
    estimated = transcript.estimated
    assert estimated == talk.state.messages.tokens + estimate_tokens("")
    transcript.measure(950)
    talk.happen(reply(1, "a", usage=Usage(input_tokens=950)), outcome("a", context=LONG))
    assert len(talk.read(transcript)) == 3
    assert transcript.estimated < 1000


@pytest.mark.parametrize("counted", [0, 3, 50])
def test_a_count_of_a_part_of_the_request_corrects_nothing(counted: int) -> None:
    """Some servers leave out what they read from their cache."""
    talk = Talk().task(LONG)
    transcript = talk.transcript(1000)
    transcript.messages()
    before = transcript.estimated
    transcript.measure(counted)
    transcript.messages()
    assert transcript.estimated == before
    talk.happen(reply(1, text="", usage=Usage(input_tokens=counted)))
    assert talk.state.messages.requests == []


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


def test_a_task_that_is_left_out_reduces_the_counted_tokens_by_its_share() -> None:
    """Of a text that is twice as long as by estimate, half of the tasks go."""
    talk = Talk()
    for number in range(5):
        counted = 2 * (talk.state.messages.tokens + estimate_tokens(LONG))
        talk.task(f"{number}" + LONG[1:], LONG, counted)
    talk.task("now")
    assert [each[0] for each in talk.read(talk.transcript(1800))[:1]] == ["3"]


def test_a_regenerated_task_keeps_its_counts() -> None:
    talk = Talk().task("one", "two", counted=30).task("three", "four", counted=9_000)
    talk.transcript(10_000)
    talk.state.messages.forget(TaskId("task_2"))
    assert talk.state.messages.requests == [(1, estimate_tokens("one"), 30)]


@pytest.mark.parametrize("limit", [200, 400, 900])
@pytest.mark.parametrize("counts", [[0, 90, 0, 600, 30], [500, 50, 880, 0, 100]])
def test_a_process_that_folds_the_log_reads_what_the_one_before_it_read(
    limit: int, counts: list[int]
) -> None:
    """The page: "Trimming is a pure function of the log, so a restart trims alike."."""
    talk = Talk()
    for number, counted in enumerate(counts):
        talk.task(f"{number}" + LONG[: 150 * number], "so", counted).task("and", "?")
        talk.task("look").round("a", LONG, counted)
        talk.read(talk.transcript(limit))
        assert contents(talk.again().messages.entries) == contents(talk.state.messages.entries)
        assert talk.again().messages == talk.state.messages
        talk.happen(reply(2, text="Done."), ended())


@pytest.mark.parametrize("limit", [120, 150, 200, 260, 350, 500, 800])
@pytest.mark.parametrize(
    "counts", [[0] * 6, [90, 180, 300, 420, 500, 600], [400, 30, 30, 200, 0, 9]]
)
def test_trimming_depends_only_on_the_log(limit: int, counts: list[int]) -> None:
    """A transcript that saw the whole task and a new one return the same messages."""
    talk = Talk().task("a" + LONG, "b").task("c", "d" + LONG).task("e")
    lived = talk.transcript(limit)
    for number, counted in enumerate(counts):
        read = talk.read(lived)
        again = talk.transcript(limit)
        assert contents(again.messages()) == read
        assert again.estimated == lived.estimated
        assert again.cut(()) == lived.cut(())
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


def test_messages_that_fit_exactly_are_read_whole() -> None:
    talk = Talk().task("one", "two").task("look").round("a", LONG).round("b", LONG)
    everything = talk.transcript(10**6)
    everything.messages()
    fits = talk.transcript(everything.estimated)
    assert fits.messages() is talk.state.messages.entries
    assert not fits.is_crowded
    assert talk.read(talk.transcript(everything.estimated - 1))[2].startswith("[result")


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


def test_tasks_with_images_are_left_out_like_others() -> None:
    for rules, kept in ((READS_ALL, 1), (FileRules(CLAUDE), 11)):
        talk = Talk()
        for number in range(5):
            talk.task(f"{number}", "ok", files=(picture(),) * 2)
        talk.task("now")
        transcript = Transcript(talk.current, system="", limit=2900, reads=rules)
        assert len(talk.read(transcript)) == kept


def test_an_image_goes_with_the_preview_of_its_result() -> None:
    talk = Talk().task("look")
    for name in ("a", "b"):
        talk.happen(reply(1, name), outcome(name, context="seen", files=(picture(),)))
    rules = FileRules(CLAUDE, tool_images=True)
    transcript = Transcript(talk.current, system="", limit=150, reads=rules)
    read = talk.read(transcript)
    assert read == ["look", "", "[result removed: seen]", "", "seen"]
    assert [entry.index for entry in talk.state.messages.files] == [4]
    assert transcript.estimated < 150
