"""The plugins of a project: those installed as `penstock.plugins`, and those of the program."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from inspect import iscoroutine

from penstock.app.plugins.api import PluginApi
from penstock.core.errors import ConfigError
from penstock.core.foreign_code import CaughtError

GROUP = "penstock.plugins"
Plugin = Callable[[PluginApi], object]
"""Called once, when a project is read to be opened."""


def load_plugins(given: Iterable[Plugin] = ()) -> PluginApi:
    """Call every plugin, those of the program first; return the PluginApi that they share.

    Raises ConfigError for one that cannot be loaded or fails, with its name.
    """
    api = PluginApi()
    for name, load in (*_brought(given), *_installed()):
        said: object = None
        with CaughtError() as fault:
            said = load()(api)
        if fault.error is not None:
            raise ConfigError(
                f"the plugin {name} failed: {str(fault).rstrip('.')}. Mend it, or uninstall it."
            ) from fault.error
        if iscoroutine(said):
            said.close()
            raise ConfigError(f"the plugin {name} is a coroutine: make it a plain function")
    return api


def _brought(given: Iterable[Plugin]) -> Iterator[tuple[str, Callable[[], Plugin]]]:
    for plugin in given:
        name = getattr(plugin, "__qualname__", repr(plugin))
        yield repr(name), _constant(plugin)


def _constant(plugin: Plugin) -> Callable[[], Plugin]:
    return lambda: plugin


def _installed() -> Iterator[tuple[str, Callable[[], Plugin]]]:
    for point in _points(tuple(sys.path)):
        yield f"{point.name!r} ({_home(point)})", point.load


@lru_cache(maxsize=1)
def _points(places: tuple[str, ...]) -> Sequence[EntryPoint]:
    """Return what is installed in these places, where Python looks; to read it takes milliseconds.

    A plugin that is installed later is found when the process starts again.
    """
    return sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value))


def _home(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
