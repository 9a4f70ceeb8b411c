"""Agents whose every call is durable: the public names, each loaded when it is first asked for."""

from typing import Any

from penstock.core.late import late

__version__ = "0.1.0.dev0"

HOMES: dict[str, str] = {
    "Agent": "agents.agent",
    "AgentContext": "resources.dependencies",
    "AgentOptions": "agents.agent",
    "Answered": "chat.python.public_events",
    "Ask": "tools.hooks.hooks",
    "Asked": "chat.python.public_events",
    "AssistantMessage": "core.reply",
    "Audio": "agents.attachments.content",
    "ChatSettings": "agents.agent",
    "ChildOptions": "tools.python.children",
    "ChildResult": "tools.python.children",
    "ChildTask": "tools.python.children",
    "ConfigError": "core.errors",
    "Content": "agents.attachments.content",
    "Depends": "resources.dependencies",
    "Difference": "chat.recorded.replay_report",
    "Document": "agents.attachments.content",
    "EarlierWrite": "chat.recorded.fork",
    "Ended": "chat.python.public_events",
    "Envelope": "core.envelope",
    "Event": "chat.python.public_events",
    "Fallback": "models.fallback",
    "FileOptions": "agents.agent_profile",
    "Finished": "models.model",
    "Fork": "chat.recorded.fork",
    "HandedOff": "chat.python.public_events",
    "Hooks": "tools.hooks.hooks",
    "Image": "agents.attachments.content",
    "InvalidRequest": "core.errors",
    "Limits": "core.limits",
    "Message": "core.reply",
    "MessageOptions": "chat.python.message_options",
    "Model": "models.model",
    "ModelCard": "models.model",
    "ModelEvent": "models.model",
    "ModelReply": "tools.hooks.hooks",
    "ModelRequest": "models.model",
    "ModelRetry": "core.call_errors",
    "ModelSettings": "models.settings",
    "NameTaken": "core.errors",
    "NewCall": "chat.requests",
    "NewRun": "chat.requests",
    "NewSchedule": "chat.schedules.definition",
    "NotFound": "core.errors",
    "Notice": "chat.python.public_events",
    "OpenOptions": "app.opening",
    "OutputChanged": "core.reply",
    "OutputDelta": "chat.python.public_events",
    "PenstockError": "core.errors",
    "PluginApi": "app.plugins.api",
    "Prices": "models.prices",
    "Profile": "core.profile",
    "Question": "core.reply",
    "Refuse": "tools.hooks.hooks",
    "ReplayChanges": "chat.recorded.replay_report",
    "ReplayReport": "chat.recorded.replay_report",
    "Reply": "core.reply",
    "Retry": "tools.python.options",
    "Run": "chat.python.run",
    "Runtime": "app.runtime",
    "RuntimeMisuse": "core.errors",
    "Schedule": "chat.schedules.definition",
    "Scheduler": "chat.schedules.scheduler",
    "Session": "chat.python.archive",
    "Status": "core.envelope",
    "StepEnded": "chat.python.public_events",
    "StepStarted": "chat.python.public_events",
    "SyncRun": "program.sync_run",
    "SyncRuntime": "program.sync_runtime",
    "TaskCancelled": "core.reply",
    "TaskError": "core.reply",
    "TaskFailed": "core.reply",
    "TaskScope": "resources.dependencies",
    "TaskStatus": "core.task",
    "TaskSuspended": "core.reply",
    "Text": "chat.python.public_events",
    "TextDelta": "models.model",
    "Thinking": "chat.python.public_events",
    "Tool": "agents.definition.tools",
    "ToolCall": "core.reply",
    "ToolCalled": "chat.python.public_events",
    "ToolContext": "tools.python.context",
    "ToolFailed": "core.call_errors",
    "ToolReturned": "chat.python.public_events",
    "Toolset": "agents.definition.tools",
    "Undo": "chat.recorded.undo",
    "UndoCall": "chat.recorded.undo",
    "Usage": "core.messages",
    "UserMessage": "core.reply",
    "ValueChange": "chat.recorded.replay_report",
    "asgi": "server.mounting",
    "chat_sync": "program.opening",
    "mount": "server.mounting",
    "open": "program.opening",
    "open_sync": "program.opening",
    "tool": "tools.python.function",
    "verify_webhook": "app.background.signature",
}
"""Public name -> the file it lives in. Their types are in `__init__.pyi`."""

__all__ = [name for name in HOMES if name != "open"]  # a star must not hide the function of Python


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted([*HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: `--help` must not wait for the database."""
    if home := HOMES.get(name):
        return late(f"{__name__}.{home}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
