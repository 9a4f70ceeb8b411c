"""Nothing real happens in a visit."""

from tests.flows.dry_run.walks import dry, found, unwalked

CODE = "- {id: count, type: code, outputs: [{name: n, type: number}], on_error: save}\n"
SHELL = "- {id: build, command: 'touch built; exit 1', on_error: save}\n"
SAVE = "- {id: save, agent: scout, task: '${{result.count.n}}'}\n"


def test_a_command_and_a_module_fail_once_each_and_are_never_run() -> None:
    """Output of its declared type, handler loaded and not run; failure once with on_error."""
    run = dry(CODE + SHELL + SAVE)
    assert (run.runs, unwalked(run), run.results["count"].outputs) == (3, [], {"n": 1})


def test_the_choice_of_a_code_decision_is_made_up() -> None:
    step = "- {id: pick, type: code-decision, branches: {a: one, b: two}}\n"
    run = dry(step + "- {id: one, agent: scout, end: true}\n- {id: two, agent: scout}\n")
    assert (run.reached, unwalked(run)) == (("pick", "one", "two"), [])


def test_a_step_that_did_not_run_is_absent() -> None:
    """Present and absent; but what was never there cannot be present."""
    ask = "- {id: ask, check: late.summary, present: late, absent: done}\n"
    steps = ask + "- {id: done, agent: scout, end: true}\n- {id: late, agent: scout}\n"
    run = dry(steps)
    assert unwalked(run) == [("ask", "present")]
    assert found(steps) == [
        '4 warning dry-branch-unwalked: no run of 2 took "present" of step "ask"',
        '6 warning dry-unreachable: no run of 2 reached step "late"',
    ]


def test_an_agent_returns_its_declared_outputs_and_uses_no_tool() -> None:
    """`finish complete` with every declared output filled."""
    run = dry("- {id: look, agent: finder, outputs: [{name: year, pattern: '^[0-9]+$'}]}\n")
    assert run.results["look"].outputs == {"topics": ["sample"], "year": "sample"}


def test_no_file_is_given_to_agents() -> None:
    assert found("- {id: look, agent: scout, inputs: {text: 'file://secret.txt'}}\n") == []


def test_a_nested_flow_runs_and_fails_once() -> None:
    """flow-ref: walked inside; a glob: each match."""
    inner = "- {id: sum, agent: scout}\n- {id: more, agent: scout}\n"
    steps = "- {id: all, path: 's*.yaml', on_error: mend}\n- {id: mend, agent: fixer}\n"
    run = dry(steps, {"suite": inner, "second": inner})
    assert (run.starts, unwalked(run)) == (6 + 4, [])


def test_a_path_from_a_result_means_any_flow() -> None:
    steps = "- {id: look, agent: scout}\n- {id: go, path: '${{result.look.summary}}.yaml'}\n"
    assert found(steps) == []
