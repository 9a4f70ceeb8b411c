"""Agents whose every call is durable: the public names, each loaded when it is first asked for."""

from typing import Any

from penstock.core.late import late

__version__ = "0.1.0.dev0"

HOMES: dict[str, str] = {
    "Agent": "agents.agent",
    "Audio": "agents.attachments.content",
    "ChatSettings": "agents.agent",
    "Content": "agents.attachments.content",
    "Document": "agents.attachments.content",
    "Envelope": "core.envelope",
    "Image": "agents.attachments.content",
    "Limits": "core.limits",
    "Model": "models.model",
    "ModelCard": "models.model",
    "ModelRetry": "core.call_errors",
    "NewMessage": "chat.requests",
    "PenstockError": "core.errors",
    "Prices": "models.prices",
    "Profile": "core.profile",
    "Reply": "chat.requests",
    "Retry": "tools.python.options",
    "Runtime": "app.runtime",
    "Status": "core.envelope",
    "TaskStatus": "core.task",
    "ToolContext": "tools.python.context",
    "ToolFailed": "core.call_errors",
    "open": "app.opening",
    "tool": "tools.python.function",
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
