from penstock.core.errors import ToolFailed as ToolFailed
from penstock.tools.context import ToolContext as ToolContext
from penstock.tools.function import Retry as Retry
from penstock.tools.function import tool as tool

HOMES: dict[str, str]
__version__: str
