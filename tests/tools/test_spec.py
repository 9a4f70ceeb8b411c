"""What a cut call means follows from what its tool says of itself."""

from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.tools.spec import ANY_INPUT, ToolSpec


@pytest.mark.parametrize(
    ("said", "is_cut_short"),
    [
        ({"effect": Effect.READ}, False),
        ({"effect": Effect.NONE}, False),
        ({"effect": Effect.WRITE}, True),
        ({"effect": Effect.WRITE, "is_frame": True}, False),
        ({"effect": Effect.WRITE, "stays_inside": True}, False),
    ],
)
def test_only_a_write_to_the_world_may_have_happened(
    said: dict[str, Any], is_cut_short: bool
) -> None:
    spec = ToolSpec(tool_id="t", description="", input_schema=ANY_INPUT, **said)
    assert spec.is_cut_short is is_cut_short
