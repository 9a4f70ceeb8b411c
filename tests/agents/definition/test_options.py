"""Arguments of Agent that are refused, with the line to write."""

from typing import Any

import pytest

from penstock import Agent
from penstock.core.errors import ConfigError
from penstock.models.scripted import ScriptedModel


@pytest.mark.parametrize(
    ("given", "meant"),
    [("output_type", "output"), ("system_prompt", "instructions"), ("guardrails", "hooks")],
)
def test_an_argument_of_another_framework_has_ours_as_a_hint(given: str, meant: str) -> None:
    arguments: dict[str, Any] = {given: ()}
    with pytest.raises(TypeError, match=f"no argument '{given}'. Write '{meant}'"):
        Agent("a", **arguments)


def test_the_name_of_a_model_as_the_first_argument_is_refused_with_the_line_to_write() -> None:
    with pytest.raises(ConfigError, match=r"write Agent\('assistant', model='openai:gpt-5'\)"):
        Agent("openai:gpt-5")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", "found ''; write Agent('assistant')"),
        (" ", "found ' '; write Agent('assistant')"),
        ("\u00c4 b", "found '\u00c4 b'; write Agent('A-b')"),
        ("a/b", "found 'a/b'; write Agent('a-b')"),
        ("../../x", "found '../../x'; write Agent('x')"),
        ("clerk\n", r"found 'clerk\n'; write Agent('clerk')"),
        ("-clerk", "found '-clerk'; write Agent('clerk')"),
        ("a" * 300, f"found '{'a' * 63}; write Agent('{'a' * 64}')"),
        (5, "found 5; write Agent('assistant')"),
        (None, "found None; write Agent('assistant')"),
    ],
)
def test_a_name_that_no_agent_of_a_file_could_have_is_refused(name: Any, found: str) -> None:
    with pytest.raises(ConfigError, match='"name" must be an agent name: 1 to 64 ') as caught:
        Agent(name)
    assert str(caught.value).endswith(found)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"model": 3}, r"model= takes a name .* found 3"),
        ({"model": ["a", "b"]}, r"Fallback\('a', 'b'\)"),
        ({"model": ScriptedModel}, r"an instance of your own model class, found <class"),
        ({"description": 5}, r"description= takes a text .* found 5"),
        ({"description": None}, "found None"),
        ({"settings": {"budget": 1}}, r"takes ChatSettings, .*=3\), found {'budget': 1}"),
        ({"settings": None}, "takes ChatSettings, .* found None"),
        ({"model_settings": {"temperature": 1}}, r"takes ModelSettings, .*\(temperature=0.2\)"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_with_the_form_to_write(
    arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TypeError, match=problem):
        Agent("a", **arguments)


def test_an_unknown_argument_has_a_suggestion() -> None:
    wrong: dict[str, Any] = {"instruction": "typo"}
    with pytest.raises(TypeError, match="no argument 'instruction'"):
        Agent("clerk", **wrong)
