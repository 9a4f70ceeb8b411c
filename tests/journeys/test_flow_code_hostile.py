"""Modules of code steps that take too long, use too much, or change their globals."""

import pytest

from penstock.core.envelope import Status
from penstock.flows.steps.kind import CodeEnvironment
from tests.kit.code_environment import place_of, run_code, settled, visit

pytestmark = pytest.mark.chaos
DO = "export default"
LATE = """
    export default (input, { signal }) => new Promise((_, reject) => {
      signal.addEventListener("abort", () => {
        console.log(`heard ${signal.reason.name}`);
        reject(new Error("stopped"));
      });
    });
"""


@pytest.mark.parametrize(
    ("module", "source", "text"),
    [
        (f"{DO} () => {{ for (;;); }}", "code_timeout", "did not finish within 0.2 s"),
        ("for (;;); export default () => {};", "code_timeout", "did not finish within 0.2 s"),
        (f"{DO} () => flo.sleep(60000)", "code_timeout", "did not finish within 0.2 s"),
        (f"{DO} () => ({{ n: 'x'.repeat(2 << 20) }})", "code_node", "over 1048576 bytes"),
        (
            f"{DO} () => {{ const a = []; for (;;) a.push(new Uint8Array(1 << 20)); }}",
            "code_node",
            "",
        ),
        (f"{DO} () => {{ const f = () => f() + 1; f(); }}", "code_node", ""),
        (
            f"{DO} () => {{ let a = {{}}; for (let i = 0; i < 500; i++) a = {{ a }}; return a; }}",
            "code_node",
            "",
        ),
        ("Object.prototype.toJSON = () => [1]; export default () => ({})", "", ""),
        ("Promise.prototype.then = () => {}; export default async () => {}", "", ""),
        ("globalThis.clearTimeout = () => { throw 1 }; export default () => {}", "code_node", ""),
    ],
)
async def test_a_hostile_module_ends_only_its_step(
    code_environment: CodeEnvironment, module: str, source: str, text: str
) -> None:
    limit = 200 if source == "code_timeout" else 20_000
    event = await visit(code_environment, module, fields=f", timeout: {limit}")
    assert event.source == source, event
    assert text in event.text


@pytest.mark.slow("waits for the timeout of a step, up to five times")
async def test_a_module_reacts_to_its_signal_before_the_timeout(
    code_environment: CodeEnvironment,
) -> None:
    """It has 60 ms for that here, which a busy machine may take: one visit of five suffices."""
    for _ in range(5):
        event = await visit(code_environment, LATE, fields=", timeout: 600")
        if event.source != "code_timeout":
            assert (event.source, "stopped" in event.text) == ("code_node", True), event
            return
    pytest.fail("its signal came too late in each of five visits")


async def test_a_step_that_timed_out_is_retried(
    code_environment: CodeEnvironment,
) -> None:
    """Soft failures are tried again; each try is a visit with an entry of its own."""
    text = "  - {id: count, type: code, timeout: 50, retry: {attempts: 1, delay: 0}}"
    place = place_of(code_environment, text, {"count.ts": f"{DO} () => flo.sleep(9999)"})
    envelope = await run_code(code_environment, text, {}, place=place)
    assert envelope.status is Status.FAILED
    events = await settled(place)
    assert [each.source for each in events] == ["code_timeout"] * 2
