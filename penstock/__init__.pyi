from penstock.agents.agent import Agent as Agent
from penstock.agents.agent import ChatSettings as ChatSettings
from penstock.agents.attachments.content import Audio as Audio
from penstock.agents.attachments.content import Content as Content
from penstock.agents.attachments.content import Document as Document
from penstock.agents.attachments.content import Image as Image
from penstock.app.opening import open as open
from penstock.app.runtime import Runtime as Runtime
from penstock.chat.requests import NewMessage as NewMessage
from penstock.chat.requests import Reply as Reply
from penstock.core.call_errors import ModelRetry as ModelRetry
from penstock.core.call_errors import ToolFailed as ToolFailed
from penstock.core.envelope import Envelope as Envelope
from penstock.core.envelope import Status as Status
from penstock.core.errors import PenstockError as PenstockError
from penstock.core.limits import Limits as Limits
from penstock.core.profile import Profile as Profile
from penstock.core.task import TaskStatus as TaskStatus
from penstock.models.model import Model as Model
from penstock.models.model import ModelCard as ModelCard
from penstock.models.prices import Prices as Prices
from penstock.tools.python.context import ToolContext as ToolContext
from penstock.tools.python.function import tool as tool
from penstock.tools.python.options import Retry as Retry

__all__ = [
    "Agent",
    "Audio",
    "ChatSettings",
    "Content",
    "Document",
    "Envelope",
    "Image",
    "Limits",
    "Model",
    "ModelCard",
    "ModelRetry",
    "NewMessage",
    "PenstockError",
    "Prices",
    "Profile",
    "Reply",
    "Retry",
    "Runtime",
    "Status",
    "TaskStatus",
    "ToolContext",
    "ToolFailed",
    "tool",
]

HOMES: dict[str, str]
__version__: str
