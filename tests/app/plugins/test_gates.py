"""Gates: which runs they stand before, and what counts as closed."""

import asyncio
import threading
from typing import Any

import pytest

from penstock.app.plugins.api import PluginApi
from penstock.app.plugins.gates import Check, GateList, PluginGate
from penstock.chat.message import NewRun
from tests.kit.project import ProjectFolder


def gate(check: Check, *flows: str, message: str = "closed") -> PluginGate:
    return PluginGate(name="g", check=check, flows=flows or ("*",), message=message)


@pytest.mark.parametrize(
    ("flows", "stands"),
    [
        (("dom:apply",), True),
        (("dom:*",), True),
        (("*",), True),
        (("apply", "dom:apply"), True),
        (("dom",), False),
        (("DOM:*",), False),
        ((), False),
    ],
)
def test_which_flows_a_gate_stands_before(flows: tuple[str, ...], stands: bool) -> None:
    """`flows`: commands or prefixes with `*` at the end."""
    made = PluginGate(name="g", check=lambda: True, flows=flows, message="")
    assert made.stands_before("dom:apply") is stands


def broken() -> bool:
    raise RuntimeError("no power")


async def later(answer: bool) -> bool:
    return answer


async def never() -> bool:
    return await asyncio.Event().wait()


async def broken_later() -> bool:
    raise RuntimeError("no power")


@pytest.mark.parametrize(
    ("check", "is_open"),
    [
        (lambda: True, True),
        (lambda: False, False),
        (lambda: None, False),
        (lambda: later(answer=True), True),
        (lambda: later(answer=False), False),
        (broken, False),
        (broken_later, False),
        (never, False),
    ],
)
async def test_what_counts_as_open(check: Any, is_open: bool) -> None:
    """`check()` sync or async, 2 s; an exception counts as false."""
    gates = GateList(seconds=0.02 if check is never else 30)
    gates.add(gate(check))
    assert await gates.refusal("f") == (None if is_open else "closed")
    gates.close()


async def test_a_check_that_blocks_holds_up_nothing_but_its_run() -> None:
    free = threading.Event()
    gates = GateList(seconds=0.02)
    gates.add(gate(free.wait))
    assert await gates.refusal("f") == "closed"
    free.set()
    gates.close()


async def test_the_first_closed_gate_says_why() -> None:
    gates, asked = GateList(), list[str]()

    def ask() -> bool:
        asked.append("three")
        return True

    gates.add(gate(lambda: True, message="one"))
    gates.add(gate(lambda: False, message="two"))
    gates.add(gate(ask, message="three"))
    assert await gates.refusal("f") == "two"
    assert asked == []
    gates.close()


@pytest.mark.parametrize(("flows", "code"), [("f", "GATE_CLOSED"), ("g*", None)])
async def test_a_run_before_a_closed_gate_is_rejected(
    project: ProjectFolder, flows: str, code: str | None
) -> None:
    """First false: rejected with `message`; it is stored as a run with status `rejected`."""

    def plugin(api: PluginApi) -> None:
        api.register_gate("hours", lambda: False, flows=[flows], message="The office is closed.")

    step = (
        "  - {id: q, question: 'Go?', branches: {Go: s, No: s}}\n  - {id: s, agent: flow-decision}"
    )
    project.write("flows/f.yaml", f"name: f\ndescription: d\nsteps:\n{step}\n")
    async with project.opened(plugins=[plugin]) as runtime:
        envelope = await runtime.run_flow(NewRun(command="f", task="t"))
    assert envelope.error is not None
    if code is None:
        assert envelope.error.code == "SUSPENDED"
        return
    assert (envelope.error.code, envelope.error.message) == (code, "The office is closed.")
    assert envelope.output["status"] == "rejected"
    assert envelope.output["reason"] == "The office is closed."
