"""Scripts request child tasks and wait for them: `flo.task.spawn` and the batches."""

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.chat.requests import NewCall
from penstock.core.events.events import NoteEmitted
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from penstock.testing.runtime import MemoryStorage
from tests.kit.children import until, until_it_is
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage

SCRIPT = {
    "the apples": [say("3 EUR")],
    "the pears": [say('{"price": 4}')],
    "hotel in Rome": [call("final_answer", euros=90)],
    "train to Rome": [call("final_answer", euros=40)],
    "badly": [call("final_answer", euros="x")] * 9,
}
CHILD = """
    const child = (key: string, objective: string, more: object = {}) => flo.task.spawn({
      key, title: key, objective, input: null, input_schema: {}, output_schema: null, ...more,
    } as any);
    const told = async (work: () => Promise<unknown>) => {
      try { return await work(); } catch (error: any) {
        return [error.code ?? error.name, error.details?.reason ?? error.message];
      }
    };
"""
WORKER = '{ worker_kind: "extractor", title: "t", objective: "Find the apples", input: 1 }'


async def output(project: ProjectFolder, body: str) -> Any:
    """Return what a script with this body returns."""
    project.tool("ask", f"{CHILD}\nexport async function run() {{ {body} }}")
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    async with Stage(project, place=place).opened(model=ScriptedModel(SCRIPT)) as runtime:
        envelope = await runtime.call("ask", {})
    assert envelope.ok, envelope.error
    return envelope.output


async def test_the_script_of_the_page_returns_both_prices(project: ProjectFolder) -> None:
    page = (Path(penstock.__file__).parents[1] / "docs/tasks.md").read_text("utf-8")
    source = page.partition("```typescript\n")[2].partition("```")[0]
    project.tool("ask", source, input_schema='{"type": "object"}')
    async with Stage(project).opened(model=ScriptedModel(SCRIPT)) as runtime:
        envelope = await runtime.call("ask", {"city": "Rome"})
    assert envelope.output == {"hotel": {"euros": 90}, "train": {"euros": 40}}


async def test_the_results_of_a_wait_are_frozen_under_its_key(project: ProjectFolder) -> None:
    body = """
        const a = await child("a", "Find the apples");
        const dependencies = [{ task_id: a.task_id, alias: "first" }];
        const one = await flo.task.waitForDependencies({ key: "w", dependencies });
        const two = await flo.task.waitForDependencies({ key: "w", dependencies });
        const other = await told(() => flo.task.waitForDependencies({
          key: "w", dependencies: [{ task_id: a.task_id, alias: "other" }] }));
        return [one["first"]!.output, JSON.stringify(one) === JSON.stringify(two), other];
    """
    assert await output(project, body) == [
        "3 EUR",
        True,
        ["TypeError", 'wait "w" was used with other arguments'],
    ]


async def test_any_has_one_winner_and_a_failure_rejects_unless_all_settled(
    project: ProjectFolder,
) -> None:
    body = """
        const schema = { type: "object", properties: { euros: { type: "number" } } };
        const bad = await child("bad", "Answer badly", { output_schema: schema });
        const good = await child("good", "Find the pears");
        const both = [bad, good].map(({ task_id, key }) => ({ task_id, alias: key }));
        const wait = (key: string, more: object) => told(async () => {
          const asked = { key, dependencies: both, ...more };
          const found = await flo.task.waitForDependencies(asked as any);
          return Object.entries(found).map(([alias, each]) => [alias, each.status]).sort();
        });
        return [
          await wait("all", {}),
          await wait("any", { condition: "any" }),
          await wait("settled", { failure_policy: "all_settled" }),
        ];
    """
    rejected, winner, settled = await output(project, body)
    assert rejected == ["TOOL_FAILED", "dependency_failed"]
    assert winner == [["good", "succeeded"]]
    assert settled == [["bad", "failed"], ["good", "succeeded"]]


async def test_a_batch_is_requested_awaited_and_read_again(project: ProjectFolder) -> None:
    body = f"""
        const {{ batch, event }} = await flo.task.spawnChildren({{ children: [
          {WORKER}, {{ ...{WORKER}, worker_kind: "matcher", objective: "Find the pears" }},
        ] }} as any);
        const done = await flo.task.waitForBatch({{ batch_id: batch.batch_id }});
        const again = await flo.task.getBatchResults({{ batch_id: batch.batch_id }});
        return [(event as any).event_type, batch.mode, batch.consumed, done.batch.consumed,
          done.results.map((each) => [each.worker_kind, each.status, each.output]),
          done.all_terminal, JSON.stringify(again.results) === JSON.stringify(done.results)];
    """
    assert await output(project, body) == [
        *("children_spawned", "join_required", False, True),
        [["extractor", "completed", "3 EUR"], ["matcher", "completed", {"price": 4}]],
        *(True, True),
    ]


async def test_a_script_that_resumes_after_a_batch_reads_which_one_it_was(
    project: ProjectFolder,
) -> None:
    body = f"""
        const resumed = async () => (await flo.task.getContext()).resume_payload ?? null;
        await flo.task.emitEvent({{ event_type: "entered", payload: await resumed() }});
        const {{ batch }} = await flo.task.spawnChildren({{ children: [{WORKER}] }} as any);
        await flo.task.waitForBatch({{ batch_id: batch.batch_id }});
        const alone = await child("a", "Find the pears");
        const dependencies = [{{ task_id: alone.task_id, alias: "a" }}];
        await flo.task.waitForDependencies({{ key: "w", dependencies }});
        await flo.task.emitEvent({{ event_type: "second", payload: await resumed() }});
        const answer = await flo.task.waitForUserMessage({{ user_message: "More?" }});
        return [batch.batch_id, answer.user_message];
    """
    project.tool("ask", f"{CHILD}\nexport async function run() {{ {body} }}")
    stage, held, later = Stage(project, place=MemoryStorage()), Hold(), Hold()
    script = {"the apples": [wait(held) + say("3")], "the pears": [wait(later) + say("4")]}
    async with stage.opened(model=ScriptedModel(script)) as runtime:
        stage.task_id = await runtime.start_call(NewCall(tool_id="ask", input={}))
        for each in (held, later):
            await each.reached()
            await until_it_is(runtime, stage.task_id, TaskStatus.BLOCKED)
            each.release()
        await until_it_is(runtime, stage.task_id, TaskStatus.SUSPENDED)
    reply = await stage.answer({"text": "no"})
    assert reply.envelope
    batch_id, text = reply.envelope.output
    records = await stage.place.log.read(LogId(stage.task_id))
    notes = [each.event for each in records if isinstance(each.event, NoteEmitted)]
    batch = {"kind": "batch", "batch_id": batch_id}
    answered = {"kind": "user_message", "user_message": text}
    entered = [each for each in notes if each.event_type != "script.diverged"]
    assert [(each.event_type, each.payload) for each in entered] == [
        ("entered", None),
        ("entered", batch),
        ("second", batch),
        ("entered", answered),
        ("second", answered),
    ]


async def test_a_batch_at_work_is_pending_and_ends_with_its_parent(project: ProjectFolder) -> None:
    body = f"""
        const {{ batch }} = await flo.task.spawnChildren({{ children: [
          {{ ...{WORKER}, objective: "Hang" }} ] }} as any);
        return await told(() => flo.task.getBatchResults({{ batch_id: batch.batch_id }}));
    """
    project.tool("ask", f"{CHILD}\nexport async function run() {{ {body} }}")
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    model = ScriptedModel({"Hang": [wait(Hold())]})
    async with Stage(project, place=place).opened(model=model) as runtime:
        task_id = await runtime.start_call(NewCall(tool_id="ask", input={}))
        reply = await runtime.requests.wait(task_id)
        assert reply
        assert reply.envelope
        assert reply.envelope.output == ["TOOL_FAILED", "pending"]
        await until(runtime, task_id, TaskStatus.CANCELLED, 1)


REFUSED = {
    "no batch": ('flo.task.waitForBatch({ batch_id: "b" })', "no_such_batch"),
    "too many": (
        f"flo.task.spawnChildren({{ children: Array(33).fill({WORKER}) }} as any)",
        "too_many_children",
    ),
    "no task": ('flo.task.cancel({ task_id: "task_9" })', "no_such_task"),
    "not of this tree": (
        "flo.task.cancel({ task_id: (await flo.task.getContext()).task_id })",
        "no_such_task",
    ),
    "no skill": ('child("a", "x", { selected_skill_ids: ["nope"] })', "no_such_skill"),
    "itself": (
        (
            'child("a", "x", { dependencies: '
            '[{ task_id: (await flo.task.getContext()).task_id, alias: "me" }] })'
        ),
        "cycle",
    ),
}


@pytest.mark.parametrize(("code", "reason"), REFUSED.values(), ids=REFUSED)
async def test_a_refusal_has_a_reason(project: ProjectFolder, code: str, reason: str) -> None:
    assert await output(project, f"return await told(async () => {code});") == [
        "TOOL_FAILED",
        reason,
    ]


async def test_a_cancelled_child_is_in_the_list_of_what_was_cancelled(
    project: ProjectFolder,
) -> None:
    body = """
        const a = await child("a", "Find the apples");
        const b = await child("b", "x", { dependencies: [{ task_id: a.task_id, alias: "a" }] });
        const dependencies = [{ task_id: a.task_id, alias: "a" }];
        await flo.task.waitForDependencies({ key: "w", dependencies });
        const over = await flo.task.cancel({ task_id: a.task_id });
        return [over.cancelled_task_ids, typeof b.task_id];
    """
    assert await output(project, body) == [[], "string"]


async def test_of_a_batch_that_does_not_fit_into_its_tree_no_child_works(
    project: ProjectFolder,
) -> None:
    """The script does not know those that had room."""
    worker = WORKER.replace("Find the apples", "Hang")
    body = f"return await told(() => flo.task.spawnChildren({{ children: [{worker},{worker}] }}));"
    project.tool("ask", f"{CHILD}\nexport async function run() {{ {body} }}")
    place = MemoryStorage(limits=Limits(shutdown_seconds=0, child_tasks=1))
    model = ScriptedModel({"Hang": [wait(Hold())]})
    async with Stage(project, place=place).opened(model=model) as runtime:
        task_id = await runtime.start_call(NewCall(tool_id="ask", input={}))
        reply = await runtime.requests.wait(task_id)
        assert reply is not None
        assert reply.envelope is not None
        assert reply.envelope.output == ["TOOL_FAILED", "too_many_children"]
        await until(runtime, task_id, TaskStatus.CANCELLED, 1)
