"""Names of tools that not only their own file knows: they are offered, let through or called."""

FINISH = "finish"
"""How the agent of a step hands over its result; it is offered to the agents of flows alone."""
ASK_USER = "ask_user"
SKILL_READ = "skill_read"
SUBAGENT = "subagent"
EXECUTE_WORKFLOW = "execute_workflow"
"""What a command that is a flow calls."""
FIRST = (
    "search_knowledge",
    "browse_url",
    "browser_action",
    "analyze_page",
    "execute_sql",
    EXECUTE_WORKFLOW,
    "send_email",
    "get_schedule_info",
    "create_schedule",
)
"""What comes first where tools are listed, each as soon as it is there."""
