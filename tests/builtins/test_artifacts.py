"""Reading the rest of an output that a model saw clipped."""

from typing import Any

import pytest

from penstock.builtins.artifacts import TOOLS
from penstock.core.envelope import Envelope
from penstock.testing.invocation import Workbench, open_workbench
from penstock.tools.python.function import tool

ITEMS = [{"n": number, "text": "é" * 100} for number in range(200)]


@tool(effect="none")
async def large(kind: str) -> Any:
    """Return something large."""
    match kind:
        case "object":
            return {"a/b": {"items": ITEMS}, "title": "All items"}
        case "text":
            return "é" * 20_000
        case "wide":
            return ["x" * 20_000, "y"]
        case _:
            return "small"


async def made(*kinds: str) -> tuple[Workbench, list[str]]:
    """Return a workbench, and the artifacts that these calls left."""
    bench = await open_workbench(large, *TOOLS)
    for kind in kinds:
        await bench.call("large", {"kind": kind})
    settled = await bench.settled()
    return bench, [str(each.artifact_id) for each in settled if each.artifact_id]


async def read(bench: Workbench, artifact_id: str, **more: Any) -> Envelope:
    return await bench.call("read_tool_result_artifact", {"artifact_id": artifact_id, **more})


async def test_items_of_an_array_by_pointer_and_range() -> None:
    bench, (artifact,) = await made("object")
    place = "/a~1b/items"
    output = (await read(bench, artifact, json_pointer=place, offset=10, limit=2)).output
    assert output["data"] == ITEMS[10:12]
    assert (output["offset"], output["has_more"]) == (10, True)
    assert (output["returned_items"], output["total_items"]) == (2, 200)
    assert output["content_type"] == "application/json"
    last = (await read(bench, artifact, json_pointer=place, offset=199)).output
    assert (last["data"], last["has_more"]) == ([ITEMS[199]], False)


async def test_no_more_items_are_read_than_fit() -> None:
    bench, (artifact,) = await made("object")
    output = (await read(bench, artifact, json_pointer="/a~1b/items")).output
    assert 0 < output["returned_items"] < 200
    assert output["returned_bytes"] <= 16_384
    assert output["has_more"]


async def test_one_value_by_pointer() -> None:
    bench, (artifact,) = await made("object")
    output = (await read(bench, artifact, json_pointer="/a~1b/items/3/n")).output
    assert (output["data"], output["has_more"], output["total_bytes"]) == ("3", False, 1)
    text = (await read(bench, artifact, json_pointer="/title")).output
    assert (text["data"], text["content_type"]) == ("All items", "text/plain")


async def test_a_text_is_read_to_its_end_and_no_character_is_cut() -> None:
    bench, (artifact,) = await made("text")
    parts, offset = [], 0
    while True:
        output = (await read(bench, artifact, offset=offset, limit=9999)).output
        parts.append(output["data"])
        offset += output["returned_bytes"]
        if not output["has_more"]:
            break
    assert "".join(parts) == "é" * 20_000
    assert (offset, output["total_bytes"]) == (40_000, 40_000)
    one = (await read(bench, artifact, limit=1)).output
    assert (one["data"], one["returned_bytes"]) == ("é", 2)


@pytest.mark.parametrize(
    ("pointer", "message"),
    [
        ("/nothing", "nothing is at '/nothing': at / is an object with 'a/b', 'title'"),
        ("/a~1b/items/200", "at /a~1b/items is an array of 200 items"),
        ("/a~1b/items/-1", "is an array of 200 items"),
        ("/a~1b/items/" + "9" * 5000, "is an array of 200 items"),
        ("/title/x", "at /title is a value without parts"),
    ],
)
async def test_a_pointer_to_nothing_reports_its_longest_valid_part(
    pointer: str, message: str
) -> None:
    bench, (artifact,) = await made("object")
    envelope = await read(bench, artifact, json_pointer=pointer)
    assert envelope.error
    assert message in envelope.error.message
    assert envelope.error.details == {"reason": "not_found"}


async def test_an_item_that_does_not_fit_is_read_in_parts() -> None:
    bench, (artifact,) = await made("wide")
    envelope = await read(bench, artifact)
    assert envelope.error
    assert envelope.error.details == {"reason": "too_large"}
    assert envelope.error.suggestion
    assert "json_pointer …/0" in envelope.error.suggestion
    assert (await read(bench, artifact, json_pointer="/0")).output["total_bytes"] == 20_000


@pytest.mark.parametrize("artifact", ["art_nothing", "", "../secret"])
async def test_only_artifacts_of_this_task(artifact: str) -> None:
    bench, _ = await made("object")
    envelope = await read(bench, artifact)
    assert envelope.error
    assert envelope.error.code == "TOOL_FAILED"
    assert envelope.error.details == {"reason": "not_found"}


@pytest.mark.parametrize(
    "input", [{}, {"artifact_id": "a", "limit": 16_385}, {"artifact_id": "a", "json_pointer": "x"}]
)
async def test_an_invalid_request_is_refused(input: dict[str, Any]) -> None:
    bench, _ = await made()
    envelope = await bench.call("read_tool_result_artifact", input)
    assert envelope.error
    assert envelope.error.code == "INVALID_INPUT"


async def test_the_list_is_newest_first_and_marks_clipped_results() -> None:
    bench, (first, second) = await made("object", "small", "text")
    output = (await bench.call("list_tool_result_artifacts")).output
    entries = output["entries"]
    assert [each["artifact_id"] for each in entries] == [second, first]
    assert (output["total_entries"], output["has_more"], output["next_offset"]) == (2, False, None)
    assert (entries[0]["size_bytes"], entries[0]["content_type"]) == (40_000, "text/plain")
    assert [each["first_seen_sequence"] for each in entries] == [3, 1]
    assert entries[1] | {"size_bytes": 0, "preview": ""} == {
        "artifact_id": first,
        "tool_name": "large",
        "summary": "All items",
        "content_type": "application/json",
        "size_bytes": 0,
        "first_seen_sequence": 1,
        "preview": "",
    }


@pytest.mark.parametrize(
    ("input", "found", "more"),
    [
        ({"limit": 1}, 1, 1),
        ({"limit": 1, "offset": 1}, 1, None),
        ({"offset": 5}, 0, None),
        ({"tool_name": "large"}, 2, None),
        ({"tool_name": "other"}, 0, None),
        ({"query": "all ITEMS"}, 1, None),
    ],
)
async def test_the_list_can_be_paged_and_searched(
    input: dict[str, Any], found: int, more: int | None
) -> None:
    bench, _ = await made("object", "text")
    output = (await bench.call("list_tool_result_artifacts", input)).output
    assert (len(output["entries"]), output["next_offset"]) == (found, more)


async def test_the_list_has_ten_unless_more_are_wanted() -> None:
    bench, _ = await made(*["text"] * 11)
    output = (await bench.call("list_tool_result_artifacts")).output
    assert (len(output["entries"]), output["next_offset"]) == (10, 10)


async def test_another_process_reads_the_artifact() -> None:
    bench, (artifact,) = await made("object")
    await bench.ledger.held.release(wake_at=None)
    await bench.take_over()
    assert (await read(bench, artifact, json_pointer="/title")).output["data"] == "All items"


def test_previews() -> None:
    reads, lists = TOOLS
    assert reads.preview({"returned_items": 2, "total_items": 9}) == "Read 2 of 9 items"
    assert reads.preview({"returned_bytes": 2, "total_bytes": 9}) == "Read 2 of 9 bytes"
    assert lists.preview({"total_entries": 1}) == "1 artifact"
    assert lists.preview({"total_entries": 2}) == "2 artifacts"
