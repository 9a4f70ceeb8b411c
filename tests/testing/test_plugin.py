"""The pytest plug-in, tried by pytest on small test files."""

import re
from pathlib import Path

import pytest

from penstock.cli.authoring.init import init

pytest_plugins = ("pytester",)
pytestmark = pytest.mark.programs
PASSES = """
from penstock import Agent, tool
from penstock.testing import assert_calls, call, finish, say

@tool
def refund(order: int) -> str:
    "Refund an order."
    return f"refunded {order}"

clerk = Agent("clerk", model="openai:gpt-5", tools=[refund])
counter = Agent("counter", output=int)

def test_calls(penstock_runtime, scripted):
    scripted.play(call("refund", order=7), say("Done."))
    reply = penstock_runtime.chat("Refund order 7", agent=clerk)
    assert reply.output == "Done."
    assert_calls(reply, [("refund", {"order": 7})])

def test_output(penstock_runtime, scripted):
    scripted.play(finish(3))
    assert penstock_runtime.chat("How many?", agent=counter).output == 3

def test_offline(penstock_runtime):
    assert penstock_runtime.chat("Hello").status == "succeeded"

def test_time(penstock_runtime, penstock_clock):
    before = penstock_clock.now()
    penstock_runtime.do(lambda runtime: penstock_clock.elapse(60))
    assert penstock_clock.now() - before == 60_000
"""
PAGE = Path(__file__).parents[2] / "docs/testing.md"
LEFT_OVER = """
from penstock.testing import say

def test(penstock_runtime, scripted):
    scripted.play(say("One."), say("Two."))
    penstock_runtime.chat("Hello")
"""
MISSING = """
def test(penstock_runtime, scripted):
    assert penstock_runtime.chat("Hello").status == "failed"
"""
WRONG = """
from penstock.testing import assert_calls

def test(penstock_runtime):
    assert_calls(penstock_runtime.chat("Hello"), [("refund", {})])
"""
PROJECT = """
import pytest
from penstock.testing import call, say

@pytest.mark.penstock_project("demo")
def test(penstock_runtime, scripted):
    scripted.play(call("hello", name="Ann"), say("Done."))
    reply = penstock_runtime.chat("Greet Ann")
    assert reply.calls[0].output == {"greeting": "Hello, Ann!"}
"""


@pytest.mark.slow("starts pytest")
def test_a_script_must_fit_and_everything_else_passes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project = pytester.path / "demo"
    init(project)
    (of_page,) = re.findall(
        r"```python\n(.*?)```", PAGE.read_text().split("## With pytest")[1], re.DOTALL
    )
    files = {"passes": PASSES, "left_over": LEFT_OVER, "missing": MISSING, "project": PROJECT}
    files["page"], files["wrong"] = of_page, WRONG
    for name, text in files.items():
        (pytester.path / f"test_{name}.py").write_text(text)
    result = pytester.runpytest_subprocess("-p", "penstock.testing.plugin", "--strict-markers")
    result.assert_outcomes(passed=8, errors=2, failed=1)
    result.stdout.fnmatch_lines_random(
        [
            "*replies of the script that no model call used: 1*Two.*",
            "E*the calls differ (- expected, + made):*",
            "*replies that the script lacks: 1*'Hello'*scripted.play*",
        ]
    )
    assert "ndiff" not in result.stdout.str()  # the traceback ends in the test
    assert not (project / ".penstock").exists()
