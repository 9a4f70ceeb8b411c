from penstock.agents.agent import Agent as Agent
from penstock.agents.settings import ChatSettings as ChatSettings
from penstock.app.opening import open as open
from penstock.app.runtime import Runtime as Runtime
from penstock.core.errors import ToolFailed as ToolFailed
from penstock.tools.context import ToolContext as ToolContext
from penstock.tools.function import Retry as Retry
from penstock.tools.function import tool as tool

HOMES: dict[str, str]
__version__: str
