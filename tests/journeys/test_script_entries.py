"""Scripts that run again after crashes, approvals and answers, as their pages describe."""

from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.envelope import Status
from penstock.core.events.events import CallStarted
from penstock.core.limits import Limits
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage
from tests.kit.dying_log import DyingLog
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act, echo

ORDER = """
    export async function run({ order }: { order: string }) {
      const a = await flo.callTool({ tool_id: "reserve_stock", input: { order } });
      const b = await flo.callTool({ tool_id: "charge_card", input: { order } });
      return { a: a.status, b: b.status };
    }
"""
GOOD, CUT = {"a": "success", "b": "success"}, {"a": "failed", "b": "success"}

# Writes to the log: 1 the request, 2 the task and the start of the script, 3 its clock and the
# start of reserve_stock, 4 its outcome, 5 and 6 those of charge_card, 7 the outcome of the script.
E1 = [
    ("before it is committed as started", 3, True, False, 1, 1, GOOD),
    ("started, did not run", 3, False, False, 0, 1, CUT),
    ("started, ran, not settled", 4, True, False, 1, 1, CUT),
    ("the same, with idempotent", 4, True, True, 2, 1, GOOD),
    ("reserve_stock settled", 4, False, False, 1, 1, GOOD),
    ("charge_card not started", 5, True, False, 1, 1, GOOD),
    ("charge_card settled", 6, False, False, 1, 1, GOOD),
    ("the script not settled", 7, True, False, 1, 1, GOOD),
]


@pytest.mark.chaos
@pytest.mark.parametrize("row", E1, ids=lambda row: row[0])
async def test_e1_a_crash_between_calls(project: ProjectFolder, row: Any) -> None:
    """E1: the process is killed before or after a write to the log."""
    _, write, before, idempotent, stock, card, output = row
    keys: list[str] = []

    async def reserve(_given: Any, invocation: Any) -> str:
        keys.append(invocation.idempotency_key)
        return "reserved"

    spec: dict[str, Any] = {"effect": Effect.WRITE, "direct_call": True}
    reserve_stock = Act("reserve_stock", reserve, idempotent=idempotent, **spec)
    charge_card = Act("charge_card", **spec)
    project.tool("order", ORDER)
    clock = FakeClock()
    log = DyingLog(clock, writes=write, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    stage = Stage(project, reserve_stock, charge_card, place=place)
    envelope = await stage.survive("order", {"order": "7"})
    assert envelope.output == output
    assert (len(reserve_stock.runs), len(charge_card.runs)) == (stock, card)
    assert len(set(keys)) <= 1
    codes = [each.error.code for each in await stage.outcomes("reserve_stock") if each.error]
    assert codes == (["INTERRUPTED"] if output == CUT else [])
    started = {e.idempotency_key for e in await stage.events() if isinstance(e, CallStarted)}
    assert set(keys) <= started


PARALLEL = """
    export async function run() {
      const [x, y, z] = await Promise.all([
        flo.callTool({ tool_id: "look", input: {} }),
        flo.callTool({ tool_id: "send", input: { to: "a" } }),
        flo.callTool({ tool_id: "post", input: {} })
          .then((r) => flo.callTool({ tool_id: "look", input: { id: r.output } })),
      ]);
      return [x.status, y.status, z.status, y.error?.code];
    }
"""


def acts() -> tuple[Act, Act, Act]:
    look = Act("look", direct_call=True)
    post = Act("post", effect=Effect.WRITE, direct_call=True)
    send = Act("send", echo, effect=Effect.WRITE, direct_call=True, requires_approval=True)
    return look, post, send


@pytest.mark.parametrize(
    ("decision", "output", "sent"),
    [
        ("approve", ["success", "success", "success", None], 1),
        ("reject", ["success", "failed", "success", "REJECTED"], 0),
    ],
)
async def test_e2_all_with_one_approval(
    project: ProjectFolder, decision: str, output: Any, sent: int
) -> None:
    """E2: "`look`, `post` and the second `look` run and settle; `send` opens question q1"."""
    look, post, send = acts()
    project.tool("all", PARALLEL)
    stage = Stage(project, look, post, send)
    parked = await stage.call("all")
    assert parked.status is Status.SUSPENDED
    assert (len(look.runs), len(post.runs), len(send.runs)) == (2, 1, 0)
    reply = await stage.answer({"decision": decision})
    assert reply.envelope
    assert reply.envelope.output == output
    assert (len(look.runs), len(post.runs), len(send.runs)) == (2, 1, sent)


@pytest.mark.parametrize("second", ["a", "b"], ids=["equal inputs", "other inputs"])
async def test_e2_two_sends_are_two_questions_and_two_runs(
    project: ProjectFolder, second: str
) -> None:
    """E2: "the first answer runs its call at once"; "two occurrences: two questions, two runs"."""
    *_, send = acts()
    script = """
        const send = (to: string) => flo.callTool({ tool_id: "send", input: { to } });
        export const run = async ({ to }: { to: string[] }) =>
          (await Promise.all(to.map(send))).map((r) => r.output);
    """
    project.tool("both", script)
    stage = Stage(project, send)
    await stage.call("both", {"to": ["a", second]})
    assert len(await stage.questions()) == 2
    reply = await stage.answer({"decision": "approve"})
    assert len(send.runs) == 1
    assert len(reply.questions) == 1
    reply = await stage.answer({"decision": "approve"})
    assert reply.envelope
    assert reply.envelope.output == [{"to": "a"}, {"to": second}]
    assert len(send.runs) == 2


async def test_e3_waiting_twice(project: ProjectFolder) -> None:
    """E3: "`post` ran once; output `["May","yes"]`"."""
    script = """
        export async function run() {
          const one = await flo.task.waitForUserMessage({ user_message: "Which month?" });
          await flo.callTool({ tool_id: "post", input: { month: one.user_message } });
          const two = await flo.task.waitForUserMessage({ user_message: "Send it?" });
          return [one.user_message, two.user_message];
        }
    """
    _, post, _ = acts()
    project.tool("months", script)
    stage = Stage(project, post)
    await stage.call("months")
    reply = await stage.answer({"text": "May"})
    assert [each.question.text for each in reply.questions] == ["Send it?"]
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope
    assert reply.envelope.output == ["May", "yes"]
    assert post.runs == [{"month": "May"}]


async def test_e3_two_waits_with_one_text_get_the_first_and_the_second_answer(
    project: ProjectFolder,
) -> None:
    script = """
        const wait = () => flo.task.waitForUserMessage({ user_message: "Next?" });
        export const run = async () => [(await wait()).user_message, (await wait()).user_message];
    """
    project.tool("next", script)
    stage = Stage(project)
    await stage.call("next")
    await stage.answer({"text": "one"})
    reply = await stage.answer({"text": "two"})
    assert reply.envelope
    assert reply.envelope.output == ["one", "two"]
