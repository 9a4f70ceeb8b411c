"""Every kind of event of a flow run as older versions stored it."""

from penstock.core.events.events import Event
from penstock.core.events.flow_events import (
    AgentReminded,
    AgentStarted,
    FileUse,
    FlowNotified,
    FlowRequested,
    FlowStarted,
    Outcome,
    RunEnded,
    StepResult,
    StepSettled,
    StepStarted,
    StepStatus,
)
from penstock.core.events.history_events import Forked
from penstock.core.ids import LogId, ProfileId, TaskId
from penstock.core.messages import Usage

STORED_OF_FLOWS: list[tuple[Event, str, str]] = [
    (
        Forked(from_task=TaskId("task_1"), from_log=LogId("conv_1"), seq=7),
        "forked",
        '{"from_task":"task_1","from_log":"conv_1","seq":7}',
    ),
    (
        FlowRequested(
            command="dom:apply",
            profile_id=ProfileId("ann"),
            permissions=("chat",),
            task="Do it",
            inputs={"n": 1},
            autonomous=True,
            max_concurrent=2,
            depth=1,
            idempotency_key="key",
            request_hash="ab",
        ),
        "flow_requested",
        (
            '{"command":"dom:apply","profile_id":"ann","permissions":["chat"],"task":"Do it",'
            '"inputs":{"n":1},"autonomous":true,"max_concurrent":2,"depth":1,"idempotency_key":"'
            'key","request_hash":"ab"}'
        ),
    ),
    (
        FlowRequested(
            command="a",
            profile_id=ProfileId("ann"),
            waiter_log=LogId("conv_1"),
            waiter=TaskId("task_1"),
        ),
        "flow_requested",
        ('{"command":"a","profile_id":"ann","inputs":{},"waiter_log":"conv_1","waiter":"task_1"}'),
    ),
    (RunEnded(run_id=TaskId("task_2")), "run_ended", '{"run_id":"task_2"}'),
    (
        FlowRequested(command="dom:apply", profile_id=ProfileId("ann")),
        "flow_requested",
        '{"command":"dom:apply","profile_id":"ann","inputs":{}}',
    ),
    (
        FlowStarted(
            file="flows/a.yaml",
            texts={"flows/a.yaml": "name: a"},
            task="Do it",
            inputs={"n": 1},
            autonomous=True,
            max_concurrent=2,
            config={"k": "v"},
        ),
        "flow_started",
        (
            '{"file":"flows/a.yaml","texts":{"flows/a.yaml":"name: a"},"task":"Do it","inputs'
            '":{"n":1},"autonomous":true,"max_concurrent":2,"config":{"k":"v"}}'
        ),
    ),
    (
        FlowStarted(file="a.yaml", texts={"a.yaml": "name: a"}, task="", root="/srv/package"),
        "flow_started",
        (
            '{"file":"a.yaml","texts":{"a.yaml":"name: a"},"task":"","inputs":{},'
            '"config":{},"root":"/srv/package"}'
        ),
    ),
    (
        StepStarted(
            step_id="draft",
            visit=2,
            agent="writer",
            active_ms=7,
            rested_ms=3,
        ),
        "step_started",
        '{"step_id":"draft","visit":2,"agent":"writer","active_ms":7,"rested_ms":3}',
    ),
    (
        StepSettled(
            step_id="gate",
            visit=1,
            outcome=Outcome.SOFT,
            result=StepResult(
                status=StepStatus.ERROR,
                summary="s",
                artifacts="<x/>",
                files=(FileUse("a.py", "created"),),
                full_output="all",
                branch="x",
                outputs={"n": 1},
                finish={"status": "error"},
            ),
            source="agent_no_finish",
            text="no finish",
            targets=("x",),
            answer="X",
            notes="n",
            decided_by="judge",
            question="Go?",
            will_retry=True,
            duration_ms=5,
            usage=Usage(input_tokens=9),
        ),
        "step_settled",
        (
            '{"step_id":"gate","visit":1,"outcome":"soft","result":{"status":"error","summary'
            '":"s","artifacts":"<x/>","files":[{"path":"a.py","action":"created"}],"full_outp'
            'ut":"all","branch":"x","outputs":{"n":1},"finish":{"status":"error"}},"source":"'
            'agent_no_finish","text":"no finish","targets":["x"],"answer":"X","notes":"n","de'
            'cided_by":"judge","question":"Go?","will_retry":true,"duration_ms":5,"usage":{"input_tokens":9}}'
        ),
    ),
    (
        StepSettled(
            step_id="which",
            visit=1,
            outcome=Outcome.SUCCESS,
            result=StepResult(branch=("x", "y")),
            targets=("x", "y"),
        ),
        "step_settled",
        (
            '{"step_id":"which","visit":1,"outcome":"success","result":{"branch":["x","y"],"o'
            'utputs":{}},"targets":["x","y"]}'
        ),
    ),
    (
        FlowNotified(kind="flow_jump", body={"from": "a", "to": ["b"]}),
        "flow_told",
        '{"kind":"flow_jump","body":{"from":"a","to":["b"]}}',
    ),
    (
        AgentStarted(
            agent="writer",
            message="Task: do it",
            system="Rules.",
            model="m",
            offered=("read",),
            agent_hash="ab",
            charter={"tools": ["read"]},
        ),
        "agent_began",
        (
            '{"agent":"writer","message":"Task: do it","system":"Rules.","model":"m","offered'
            '":["read"],"agent_hash":"ab","charter":{"tools":["read"]}}'
        ),
    ),
    (
        AgentReminded(message="Call finish.", is_note=True),
        "agent_reminded",
        '{"message":"Call finish.","is_note":true}',
    ),
]
