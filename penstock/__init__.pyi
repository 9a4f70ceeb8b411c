from penstock.agents.agent import Agent as Agent
from penstock.agents.agent import AgentOptions as AgentOptions
from penstock.agents.agent import ChatSettings as ChatSettings
from penstock.agents.agent_profile import FileOptions as FileOptions
from penstock.agents.attachments.content import Audio as Audio
from penstock.agents.attachments.content import Content as Content
from penstock.agents.attachments.content import Document as Document
from penstock.agents.attachments.content import Image as Image
from penstock.agents.definition.tools import Tool as Tool
from penstock.agents.definition.tools import Toolset as Toolset
from penstock.app.background.signature import verify_webhook as verify_webhook
from penstock.app.opening import OpenOptions as OpenOptions
from penstock.app.plugins.api import PluginApi as PluginApi
from penstock.app.runtime import Runtime as Runtime
from penstock.chat.python.archive import Session as Session
from penstock.chat.python.message_options import MessageOptions as MessageOptions
from penstock.chat.python.public_events import Answered as Answered
from penstock.chat.python.public_events import Asked as Asked
from penstock.chat.python.public_events import Ended as Ended
from penstock.chat.python.public_events import Event as Event
from penstock.chat.python.public_events import HandedOff as HandedOff
from penstock.chat.python.public_events import Notice as Notice
from penstock.chat.python.public_events import OutputDelta as OutputDelta
from penstock.chat.python.public_events import StepEnded as StepEnded
from penstock.chat.python.public_events import StepStarted as StepStarted
from penstock.chat.python.public_events import Text as Text
from penstock.chat.python.public_events import Thinking as Thinking
from penstock.chat.python.public_events import ToolCalled as ToolCalled
from penstock.chat.python.public_events import ToolReturned as ToolReturned
from penstock.chat.python.run import Run as Run
from penstock.chat.recorded.fork import EarlierWrite as EarlierWrite
from penstock.chat.recorded.fork import Fork as Fork
from penstock.chat.recorded.replay_report import Difference as Difference
from penstock.chat.recorded.replay_report import ReplayChanges as ReplayChanges
from penstock.chat.recorded.replay_report import ReplayReport as ReplayReport
from penstock.chat.recorded.replay_report import ValueChange as ValueChange
from penstock.chat.recorded.undo import Undo as Undo
from penstock.chat.recorded.undo import UndoCall as UndoCall
from penstock.chat.requests import NewCall as NewCall
from penstock.chat.requests import NewRun as NewRun
from penstock.chat.schedules.definition import NewSchedule as NewSchedule
from penstock.chat.schedules.definition import Schedule as Schedule
from penstock.chat.schedules.scheduler import Scheduler as Scheduler
from penstock.core.call_errors import ModelRetry as ModelRetry
from penstock.core.call_errors import ToolFailed as ToolFailed
from penstock.core.envelope import Envelope as Envelope
from penstock.core.envelope import Status as Status
from penstock.core.errors import ConfigError as ConfigError
from penstock.core.errors import InvalidRequest as InvalidRequest
from penstock.core.errors import NameTaken as NameTaken
from penstock.core.errors import NotFound as NotFound
from penstock.core.errors import PenstockError as PenstockError
from penstock.core.errors import RuntimeMisuse as RuntimeMisuse
from penstock.core.limits import Limits as Limits
from penstock.core.messages import Usage as Usage
from penstock.core.profile import Profile as Profile
from penstock.core.reply import AssistantMessage as AssistantMessage
from penstock.core.reply import Message as Message
from penstock.core.reply import OutputChanged as OutputChanged
from penstock.core.reply import Question as Question
from penstock.core.reply import Reply as Reply
from penstock.core.reply import TaskCancelled as TaskCancelled
from penstock.core.reply import TaskError as TaskError
from penstock.core.reply import TaskFailed as TaskFailed
from penstock.core.reply import TaskSuspended as TaskSuspended
from penstock.core.reply import ToolCall as ToolCall
from penstock.core.reply import UserMessage as UserMessage
from penstock.core.task import TaskStatus as TaskStatus
from penstock.models.fallback import Fallback as Fallback
from penstock.models.model import Finished as Finished
from penstock.models.model import Model as Model
from penstock.models.model import ModelCard as ModelCard
from penstock.models.model import ModelEvent as ModelEvent
from penstock.models.model import ModelRequest as ModelRequest
from penstock.models.model import TextDelta as TextDelta
from penstock.models.prices import Prices as Prices
from penstock.models.settings import ModelSettings as ModelSettings
from penstock.program.opening import chat_sync as chat_sync
from penstock.program.opening import open as open
from penstock.program.opening import open_sync as open_sync
from penstock.program.sync_run import SyncRun as SyncRun
from penstock.program.sync_runtime import SyncRuntime as SyncRuntime
from penstock.resources.dependencies import AgentContext as AgentContext
from penstock.resources.dependencies import Depends as Depends
from penstock.resources.dependencies import TaskScope as TaskScope
from penstock.server.mounting import asgi as asgi
from penstock.server.mounting import mount as mount
from penstock.tools.hooks.hooks import Ask as Ask
from penstock.tools.hooks.hooks import Hooks as Hooks
from penstock.tools.hooks.hooks import ModelReply as ModelReply
from penstock.tools.hooks.hooks import Refuse as Refuse
from penstock.tools.python.children import ChildOptions as ChildOptions
from penstock.tools.python.children import ChildResult as ChildResult
from penstock.tools.python.children import ChildTask as ChildTask
from penstock.tools.python.context import ToolContext as ToolContext
from penstock.tools.python.function import tool as tool
from penstock.tools.python.options import Retry as Retry

__all__ = [
    "Agent",
    "AgentContext",
    "AgentOptions",
    "Answered",
    "Ask",
    "Asked",
    "AssistantMessage",
    "Audio",
    "ChatSettings",
    "ChildOptions",
    "ChildResult",
    "ChildTask",
    "ConfigError",
    "Content",
    "Depends",
    "Difference",
    "Document",
    "EarlierWrite",
    "Ended",
    "Envelope",
    "Event",
    "Fallback",
    "FileOptions",
    "Finished",
    "Fork",
    "HandedOff",
    "Hooks",
    "Image",
    "InvalidRequest",
    "Limits",
    "Message",
    "MessageOptions",
    "Model",
    "ModelCard",
    "ModelEvent",
    "ModelReply",
    "ModelRequest",
    "ModelRetry",
    "ModelSettings",
    "NameTaken",
    "NewCall",
    "NewRun",
    "NewSchedule",
    "NotFound",
    "Notice",
    "OpenOptions",
    "OutputChanged",
    "OutputDelta",
    "PenstockError",
    "PluginApi",
    "Prices",
    "Profile",
    "Question",
    "Refuse",
    "ReplayChanges",
    "ReplayReport",
    "Reply",
    "Retry",
    "Run",
    "Runtime",
    "RuntimeMisuse",
    "Schedule",
    "Scheduler",
    "Session",
    "Status",
    "StepEnded",
    "StepStarted",
    "SyncRun",
    "SyncRuntime",
    "TaskCancelled",
    "TaskError",
    "TaskFailed",
    "TaskScope",
    "TaskStatus",
    "TaskSuspended",
    "Text",
    "TextDelta",
    "Thinking",
    "Tool",
    "ToolCall",
    "ToolCalled",
    "ToolContext",
    "ToolFailed",
    "ToolReturned",
    "Toolset",
    "Undo",
    "UndoCall",
    "Usage",
    "UserMessage",
    "ValueChange",
    "asgi",
    "chat_sync",
    "mount",
    "open_sync",
    "tool",
    "verify_webhook",
]

HOMES: dict[str, str]
__version__: str
