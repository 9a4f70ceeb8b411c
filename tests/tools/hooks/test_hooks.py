"""Hooks as a program declares them: names, order, and what is refused when an agent is made."""

from typing import Any, Generic, TypeVar

import pytest

from penstock import Agent, Hooks
from penstock.core.errors import ConfigError
from penstock.tools.hooks.hooks import METHODS, HookRegistry, needs_of_hook

Value = TypeVar("Value")


class Watch(Hooks):
    """Lets all calls pass."""

    async def before_call(self, ctx: Any, call: Any) -> Any:
        return call


class Other(Hooks):
    """Lets all outputs pass."""

    name = "other"

    async def on_output(self, ctx: Any, output: Any) -> None:
        return None


class Misspelt(Hooks):
    """Has the name that another framework uses, with a letter less."""

    async def befor_tool(self, ctx: Any, call: Any) -> Any:
        return call


class Unknown(Hooks):
    """Has a name that nothing here resembles."""

    async def on_tool_start(self, ctx: Any, call: Any) -> Any:
        return call


class Listener:
    """Something that another part of the program calls."""

    def on_close(self) -> None:
        """Note that it was closed."""


class Both(Hooks, Listener):
    """Is called by others, too, and has methods of its own."""

    def on_close(self) -> None:
        """Note that it was closed."""

    async def look_up(self) -> str:
        return ""


class Idle(Hooks):
    """Overrides nothing."""


class Plain(Hooks):
    """Is no coroutine function."""

    def before_call(self, ctx: Any, call: Any) -> Any:
        return call


def named(name: Any) -> Watch:
    watch = Watch()
    watch.name = name
    return watch


def test_a_hook_is_named_after_its_class_unless_it_names_itself() -> None:
    class Later(Other):
        pass

    assert [Watch().name, Other().name, Later().name, named("mine").name] == [
        "Watch",
        "other",
        "Later",
        "mine",
    ]


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        (Watch(), "hooks of the agent 'a' are a list; write [Watch()]"),
        ([Watch], "must be instances of Hooks, found <class"),
        ([Misspelt()], "method 'befor_tool' of Misspelt. Did you mean 'before_call'? There are be"),
        ([Unknown()], "method 'on_tool_start' of Unknown. There are before_model, after_reply, "),
        ([7], "must be instances of Hooks, found 7"),
        (7, "hooks of the agent 'a' are a list, found 7"),
        ([Watch(), Watch()], "two are named 'Watch'; give each instance its own `name`"),
        ([named(" ")], "needs a name, found ' '"),
        ([named(None)], "needs a name, found None"),
        ([Plain()], "Plain.before_call must be an `async def`"),
    ],
)
def test_a_wrong_hook_is_refused_where_it_is_given(hooks: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Agent("a", hooks=hooks)
    assert said in str(refused.value)


def test_methods_of_another_base_and_of_another_kind_are_left_alone() -> None:
    assert Agent("a", hooks=[Both()]).hooks[0].name == "Both"


def test_hooks_of_the_project_come_first_and_only_overridden_methods_count() -> None:
    first, second, third = named("first"), Other(), Watch()
    idle = Idle()
    selected = HookRegistry([first, second, idle]).select("a", (third, idle))
    assert selected is not None
    asked = {method: [hook.name for hook in selected.overriding(method)] for method in METHODS}
    assert {method: names for method, names in asked.items() if names} == {
        "before_call": ["first", "Watch"],
        "on_output": ["other"],
    }


def test_an_agent_whose_hooks_override_nothing_has_none() -> None:
    assert HookRegistry([Idle()]).select("a", ()) is None


def test_one_instance_may_serve_several_agents_and_is_asked_once() -> None:
    watch = Watch()
    registry = HookRegistry([watch])
    selected = registry.select("a", (watch,))
    assert selected is not None
    assert selected.overriding("before_call") == (watch,)
    assert registry.select("b", (watch,)) is not None


def test_two_instances_of_one_name_are_refused_anywhere_in_a_runtime() -> None:
    registry = HookRegistry([Watch()])
    with pytest.raises(ConfigError, match=r"two hooks are named 'Watch'.* of the project"):
        registry.select("a", (Watch(),))
    registry = HookRegistry()
    registry.select("a", (Watch(),))
    with pytest.raises(ConfigError, match=r"two hooks are named 'Watch'.* the agent 'a'"):
        registry.select("b", (Watch(),))
    with pytest.raises(ConfigError, match="two hooks are named 'Watch'"):
        registry.add([Watch()])


def test_an_agent_that_is_defined_again_may_use_the_names_of_its_hooks_again() -> None:
    """A cell of a notebook is run twice."""
    registry, again = HookRegistry(), (Watch(),)
    registry.select("a", (Watch(),))
    selected = registry.select("a", again)
    assert selected is not None
    assert selected.overriding("before_call") == again


def test_what_is_selected_once_is_kept_until_hooks_are_added() -> None:
    registry, own = HookRegistry(), (Watch(),)
    first = registry.select("a", own)
    assert registry.select("a", own) is first
    registry.add([Other()])
    again = registry.select("a", own)
    assert again is not None
    assert [len(again.overriding(each)) for each in ("before_call", "on_output")] == [1, 1]


class Pooled(Hooks[dict[str, int]]):
    """Needs something."""


class Kind(Hooks[Value], Generic[Value]):
    """Needs what its subclass says."""


class Anything(Hooks[Any]):
    """Takes anything."""


class Nothing(Hooks[object]):
    """Needs nothing."""


@pytest.mark.parametrize(
    ("hook", "needed"),
    [
        (Watch(), None),
        (Pooled(), dict[str, int]),
        (type("Below", (Pooled,), {})(), dict[str, int]),
        (Kind[int](), None),
        (Anything(), None),
        (Nothing(), None),
    ],
)
def test_a_hook_needs_the_dependencies_that_it_names(hook: Hooks[Any], needed: Any) -> None:
    assert needs_of_hook(hook) == needed
