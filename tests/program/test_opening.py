"""Opening a project from a program: in a block, awaited, in memory, without resuming."""

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.agents.agent import Agent
from penstock.core.errors import ConfigError, RuntimeMisuse, StoreClosed
from penstock.models.scripted import Hold, ScriptedModel, say, wait

FAST = {"synchronous": "NORMAL"}


async def test_a_project_can_be_entered_or_awaited(tmp_path: Path) -> None:
    async with penstock.open(tmp_path, settings=FAST) as runtime:
        session = (await runtime.chat("Hello")).session
    runtime = await penstock.open(tmp_path, settings=FAST)
    reply = await runtime.chat("And?", session=session)
    await runtime.close()
    await runtime.close()
    assert reply.status == "succeeded"
    with pytest.raises(StoreClosed):
        await runtime.questions()


async def test_a_project_in_memory_keeps_nothing() -> None:
    async with penstock.open(":memory:") as runtime:
        project = runtime.parts.flows.materials.folder
        assert (await runtime.chat("Hello")).status == "succeeded"
    assert project is not None
    assert not project.root.exists()


@pytest.mark.parametrize("is_named", [True, False])
async def test_a_program_can_set_the_default_model(tmp_path: Path, *, is_named: bool) -> None:
    model = ScriptedModel([say("Scripted.")])
    options: penstock.OpenOptions = {"model": model, "settings": FAST}
    if is_named:
        options |= {"model": model.card.model_id, "models": [model]}
    async with penstock.open(tmp_path, **options) as runtime:
        assert (await runtime.chat("Hello")).output == "Scripted."


async def test_an_unknown_option_names_the_nearest_one() -> None:
    options: Any = {"agent": []}
    with pytest.raises(RuntimeMisuse, match="Did you mean 'agents'"):
        await penstock.open(":memory:", **options)
    with pytest.raises(ConfigError):
        await penstock.open("/nowhere/at/all")


@pytest.mark.parametrize("options", [{"model": 5}, {"models": ["openai:gpt-5"]}])
async def test_what_is_no_model_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="model= takes a name such as 'openai:gpt-5' or an inst"):
        await penstock.open(":memory:", **options)


async def test_the_wrong_kind_of_with_names_the_right_line() -> None:
    opening: Any = penstock.open(":memory:")
    said = r"write `async with penstock.open\(\) as runtime"
    with pytest.raises(RuntimeMisuse, match=said), opening:
        pass
    runtime: Any = penstock.open_sync(":memory:")
    with pytest.raises(RuntimeMisuse, match=r"write `with penstock.open_sync\(\) as runtime"):
        async with runtime:
            pass


async def test_leftover_tasks_wait_for_a_runtime_that_resumes(tmp_path: Path) -> None:
    hold, done = Hold(), ScriptedModel([say("Done.")])
    quick = FAST | {"limits": {"shutdown_seconds": 0.001}}
    clerk = Agent("clerk", model=ScriptedModel([wait(hold)]))
    async with penstock.open(tmp_path, settings=quick, agents=[clerk]) as runtime:
        run = await runtime.start("Hello", agent="clerk")
        await hold.reached()
    again = Agent("clerk", model=done)
    async with penstock.open(tmp_path, settings=FAST, agents=[again], resume=False) as runtime:
        own = await runtime.chat("Hello", agent=Agent("other", model=ScriptedModel([say("Own.")])))
        with pytest.raises(TimeoutError):
            await runtime.attach(run.task_id).reply(timeout=0)
    assert own.output == "Own."
    async with penstock.open(tmp_path, settings=FAST, agents=[again]) as runtime:
        assert (await runtime.attach(run.task_id).reply()).output == "Done."
