"""The hops of a call, as they happen."""

import ast
from pathlib import Path

import penstock
from penstock.cli.terminal.trace import HOPS, Trace
from penstock.core.json_values.json_text import canonical

SOURCE = Path(penstock.__file__).parent


def test_every_hop_is_a_function_that_exists() -> None:
    for hop in HOPS:
        place, _, name = hop.rpartition(".")
        nodes = ast.walk(ast.parse((SOURCE / f"{place}.py").read_text()))
        functions = {
            node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions, hop


def test_nothing_is_watched_unless_it_is_wanted() -> None:
    trace = Trace()
    with trace.watch(is_wanted=False):
        canonical({})
    assert (trace.hops, trace.text()) == ([], "")


def test_a_hop_is_recorded_once_with_its_description() -> None:
    trace = Trace()
    trace.hops += ["app/runtime.call", "engine/ledger.find"]
    assert trace.text().splitlines() == [
        "  1  app/runtime.call    the runtime receives the call",
        "  2  engine/ledger.find  replay: if the call is settled, return that outcome",
    ]
