from penstock.models.scripted import ScriptedModel as ScriptedModel
from penstock.models.scripted import call as call
from penstock.models.scripted import fail as fail
from penstock.models.scripted import finish as finish
from penstock.models.scripted import say as say
from penstock.models.scripted import think as think
from penstock.testing.clock import FakeClock as FakeClock
from penstock.testing.expectations import ScriptedTest as ScriptedTest
from penstock.testing.expectations import assert_calls as assert_calls
from penstock.testing.runtime import MemoryRuntime as MemoryRuntime
from penstock.testing.runtime import MemoryStorage as MemoryStorage
from penstock.testing.runtime import allow_models as allow_models
from penstock.testing.runtime import memory_runtime as memory_runtime
from penstock.testing.sync_runtime import SyncMemoryRuntime as SyncMemoryRuntime
from penstock.testing.sync_runtime import memory_runtime_sync as memory_runtime_sync

__all__ = [
    "FakeClock",
    "MemoryRuntime",
    "MemoryStorage",
    "ScriptedModel",
    "ScriptedTest",
    "SyncMemoryRuntime",
    "allow_models",
    "assert_calls",
    "call",
    "fail",
    "finish",
    "memory_runtime",
    "memory_runtime_sync",
    "say",
    "think",
]
