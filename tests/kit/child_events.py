"""Stored events of child tasks: later versions must read these bodies."""

from typing import Any

from penstock.core.call import CallPath
from penstock.core.events.child_events import (
    ChildrenSpawned,
    ChildRequested,
    Dependency,
    Join,
    TreeAsked,
    WaiterAdded,
)
from penstock.core.events.events import Event, TaskStarted, TaskSuspended
from penstock.core.events.flow_events import RunEnded
from penstock.core.ids import LogId, ProfileId, QuestionId, TaskId
from penstock.core.task import Question, QuestionKind, TaskStatus

CHILD = TaskId("task_2")
_LEAST: Any = {
    "profile_id": ProfileId("ann"),
    "agent": "clerk",
    "parent": TaskId("task_1"),
    "parent_log": LogId("conv_1"),
    "root": TaskId("task_0"),
    "root_log": LogId("conv_0"),
    "session": LogId("conv_0"),
    "title": "Prices",
    "objective": "Find the prices.",
}
_LEAST_TEXT = (
    '"profile_id":"ann","agent":"clerk","parent":"task_1","parent_log":"conv_1","root":"task_0",'
    '"root_log":"conv_0","session":"conv_0","title":"Prices","objective":"Find the prices."'
)
_QUESTION = Question(
    question_id=QuestionId("q_1"),
    kind=QuestionKind.ASK_USER,
    text="Which?",
    path=CallPath("task_2/1/ask#ab"),
)
STORED_OF_CHILDREN: list[tuple[Event, str, str]] = [
    (ChildRequested(**_LEAST), "child_requested", "{" + _LEAST_TEXT + "}"),
    (
        ChildRequested(
            **_LEAST,
            permissions=("chat",),
            input={"n": 1},
            depth=2,
            key="prices",
            batch_id="batch_1",
            worker_kind="extractor",
            output_schema={"type": "object"},
            selected_skills=("shop",),
            allowed_tools=("look",),
            max_turns=3,
            dependencies=(Dependency(TaskId("task_3"), "first"),),
            any=True,
            needs_success=True,
            working_for=("boss",),
            is_autonomous=True,
        ),
        "child_requested",
        "{" + _LEAST_TEXT + ',"permissions":["chat"],"input":{"n":1},"depth":2,"key":"prices",'
        '"batch_id":"batch_1","worker_kind":"extractor","output_schema":{"type":"object"},'
        '"selected_skills":["shop"],"allowed_tools":["look"],"max_turns":3,'
        '"dependencies":[{"task_id":"task_3","alias":"first"}],"any":true,"needs_success":true,'
        '"working_for":["boss"],"is_autonomous":true}',
    ),
    (
        ChildrenSpawned(children=(CHILD,), batch_id="batch_1", key="prices", digest="ab"),
        "children_spawned",
        '{"children":["task_2"],"batch_id":"batch_1","key":"prices","digest":"ab"}',
    ),
    (
        WaiterAdded(waiter=CHILD, waiter_log=LogId("task_2")),
        *("waiter_added", '{"waiter":"task_2","waiter_log":"task_2"}'),
    ),
    (
        TreeAsked(asker=CHILD, question=_QUESTION),
        "tree_asked",
        (
            '{"asker":"task_2","question":{"question_id":"q_1","kind":"ask_user","text":"Which?",'
            '"path":"task_2/1/ask#ab"}}'
        ),
    ),
    (
        TreeAsked(asker=CHILD, answered=QuestionId("q_1"), answer={"value": "A"}),
        "tree_asked",
        '{"asker":"task_2","answered":"q_1","answer":{"value":"A"}}',
    ),
    (TreeAsked(open=(QuestionId("q_1"),)), "tree_asked", '{"open":["q_1"]}'),
    (
        RunEnded(run_id=CHILD, status=TaskStatus.FAILED),
        *("run_ended", '{"run_id":"task_2","status":"failed"}'),
    ),
    (TaskStarted(brief="Find the prices."), "task_started", '{"brief":"Find the prices."}'),
    (
        TaskSuspended(
            questions=(),
            joins=(
                Join(
                    CallPath("task_1/1/plan#ab/task.gather#cd"),
                    (CHILD,),
                    any=True,
                    needs_success=True,
                ),
            ),
        ),
        "task_suspended",
        (
            '{"questions":[],"joins":[{"path":"task_1/1/plan#ab/task.gather#cd",'
            '"runs":["task_2"],"any":true,"needs_success":true}]}'
        ),
    ),
]
