"""Loads plugins, and the object that each of them receives: what it can register and start."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from inspect import iscoroutine, signature
from pathlib import Path
from typing import Any

from penstock.app.plugins.registered import (
    PluginTool,
    RegisteredTool,
    registered,
)
from penstock.app.plugins.runs import Listener, PluginFlows, PluginListeners
from penstock.builtins import TOOLS
from penstock.core.call import FINISH
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import ConfigError, NameTaken
from penstock.core.foreign_code import CaughtError
from penstock.tools.hooks.hooks import HookRegistry, Hooks

log = logging.getLogger(__name__)

PREFIX = "flow:"
_OURS = frozenset(each.spec.tool_id for each in TOOLS) | {FINISH}


class PluginApi:
    """The interface of a plugin. All plugins of a project share it.

    What is registered while the project is open counts at once. `docs/plugins.md` has a whole
    plugin.

    Example:
        >>> from pathlib import Path
        >>> from penstock import PluginApi
        >>> def plug(api: PluginApi) -> None:
        ...     api.register_agents_dir(Path(__file__).parent / "agents")
        ...     api.on("flow_complete", print)
    """

    def __init__(self, hooks: Iterable[Hooks[Any]] = ()) -> None:
        self.hooks = HookRegistry(hooks)
        """The hooks of the program, then those of plugins."""
        self.events = PluginListeners()
        self.flows = PluginFlows(self.events.notify)
        self.agents_dirs: list[Path] = []
        """In the order of registration, as all of these."""
        self.flows_dirs: list[Path] = []
        self.skills_dirs: list[Path] = []
        self.tools: dict[str, RegisteredTool] = {}
        self.cards: list[Any] = []
        """Cards for displays; the runtime does not read them."""
        self.workflows: list[Any] = []
        self.footer_segments: list[Any] = []
        self._renew: Callable[[], None] = _nothing
        self._functions = self._by_event()

    def open(self, renew: Callable[[], None]) -> None:
        """Read the project again whenever something is registered. The runtime calls this.

        Args:
            renew: Reads the project again.
        """
        self._renew = renew

    def register_agents_dir(self, dir: str | Path) -> None:
        """Add the agents of a folder.

        Args:
            dir: An absolute path.

        Raises:
            ConfigError: The path is not absolute.
        """
        self._take(self.agents_dirs, dir)

    def unregister_agents_dir(self, dir: str | Path) -> None:
        """Remove a folder of agents.

        Args:
            dir: The path that was registered.
        """
        self._drop(self.agents_dirs, dir)

    def register_flows_dir(self, dir: str | Path) -> None:
        """Add the flows of a folder.

        Args:
            dir: An absolute path.

        Raises:
            ConfigError: The path is not absolute.
        """
        self._take(self.flows_dirs, dir)

    def unregister_flows_dir(self, dir: str | Path) -> None:
        """Remove a folder of flows.

        Args:
            dir: The path that was registered.
        """
        self._drop(self.flows_dirs, dir)

    def register_skills_dir(self, dir: str | Path) -> None:
        """Add the handbooks of a folder.

        Args:
            dir: An absolute path.

        Raises:
            ConfigError: The path is not absolute.
        """
        self._take(self.skills_dirs, dir)

    def register_tool(self, tool: PluginTool) -> None:
        """Add a tool for agent sessions that declare it. The first of one name counts.

        Args:
            tool: It has `id`, `description`, `input_schema` and `run(input, ctx)`.

        Raises:
            NameTaken: A built-in tool or one of the program has the name.
            ConfigError: It is not a tool.
        """
        made = registered(tool)
        if made.spec.tool_id in _OURS:
            raise NameTaken(f"{made.spec.tool_id!r} is a built-in tool; give yours another id")
        if made.spec.tool_id in self.tools:
            log.warning("a second tool %r of a plugin is left out", made.spec.tool_id)
            return
        self.tools[made.spec.tool_id] = made
        try:
            self._renew()
        except NameTaken:
            del self.tools[made.spec.tool_id]
            raise

    def register_hooks(self, hooks: Hooks[Any]) -> None:
        """Add hooks for all agents, after those of the program and of earlier plugins.

        Args:
            hooks: An instance of a subclass of Hooks.

        Raises:
            ConfigError: It is not such an instance, or its name is in use.
        """
        self.hooks.add([hooks])

    def register_card(self, card: Any) -> None:
        """Keep a card for displays.

        Args:
            card: Anything; the runtime does not read it.
        """
        self.cards.append(card)

    def register_workflow(self, workflow: Any) -> None:
        """Keep what displays may show of a flow.

        Args:
            workflow: Anything; the runtime does not read it.
        """
        self.workflows.append(workflow)

    def register_footer_segment(self, segment: Any) -> None:
        """Keep a segment for the footer of displays.

        Args:
            segment: Anything; the runtime does not read it.
        """
        self.footer_segments.append(segment)

    def on(self, type: str, listener: Listener) -> None:
        """Follow events of runs.

        Args:
            type: The name of the event, in either spelling.
            listener: Called with each event.

        Raises:
            NotFound: There is no such event.
            ConfigError: The listener is not a function.
        """
        self.events.on(type, _callable("a listener", listener))

    def emit(self, event: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call the function of an event by the event's name.

        Args:
            event: Such as `flow:run`.
            body: The arguments of the function, by name.

        Returns:
            What the function returns, which may be awaitable.

        Raises:
            ConfigError: The event is unknown, or its function takes other arguments.
        """
        function = self._functions.get(event)
        if function is None:
            raise ConfigError(f"there is no event {event!r}.{did_you_mean(event, self._functions)}")
        arguments = dict(body or {})
        try:
            signature(function).bind(**arguments)
        except TypeError as error:
            raise ConfigError(
                f"{event!r} takes {', '.join(signature(function).parameters) or 'nothing'}: {error}"
            ) from None
        return function(**arguments)

    def _by_event(self) -> Mapping[str, Callable[..., Any]]:
        """Return the function of each event."""
        flows = self.flows
        named: dict[str, Callable[..., Any]] = {
            "register-agents-dir": self.register_agents_dir,
            "unregister-agents-dir": self.unregister_agents_dir,
            "register-flows-dir": self.register_flows_dir,
            "unregister-flows-dir": self.unregister_flows_dir,
            "register-skills-dir": self.register_skills_dir,
            "register-tool": self.register_tool,
            "register-hooks": self.register_hooks,
            "register-card": self.register_card,
            "register-workflow": self.register_workflow,
            "register-footer-segment": self.register_footer_segment,
            "run": flows.run,
            "abort": flows.abort,
            "delete-request": flows.delete,
            "toggle-autonomous": flows.set_autonomous,
            "rediscover": flows.rediscover,
            "get-agents": flows.agents,
            "list-flows": flows.list,
        }
        return {f"{PREFIX}{name}": function for name, function in named.items()}

    def _take(self, folders: list[Path], path: str | Path) -> None:
        folder = Path(path)
        if not folder.is_absolute():
            raise ConfigError(f"a plugin registers folders by absolute paths, found {str(path)!r}")
        if folder not in folders:
            folders.append(folder)
            self._renew()

    def _drop(self, folders: list[Path], path: str | Path) -> None:
        if (folder := Path(path)) in folders:
            folders.remove(folder)
            self._renew()


def _callable(noun: str, value: Any) -> Any:
    if not callable(value):
        raise ConfigError(f"{noun} of a plugin must be a function, found {value!r}")
    return value


def _nothing() -> None:
    """Do nothing: the project is read after the plugins have registered."""


GROUP = "penstock.plugins"
Plugin = Callable[[PluginApi], object]
"""Called once, when a project is read to be opened."""


def load_plugins(of_program: Iterable[Plugin] = (), hooks: Iterable[Hooks[Any]] = ()) -> PluginApi:
    """Call every plugin, those of the program first; return the PluginApi that they share.

    Raises ConfigError for one that cannot be loaded or fails, with its name.
    """
    api = PluginApi(hooks)
    for name, load in (*_of_program(of_program), *_installed()):
        result: object = None
        with CaughtError() as fault:
            result = load()(api)
        if fault.error is not None:
            raise ConfigError(
                f"the plugin {name} failed: {str(fault).rstrip('.')}. Fix it, or uninstall it."
            ) from fault.error
        if iscoroutine(result):
            result.close()
            raise ConfigError(f"the plugin {name} is a coroutine: make it a plain function")
    return api


def _of_program(of_program: Iterable[Plugin]) -> Iterator[tuple[str, Callable[[], Plugin]]]:
    for plugin in of_program:
        name = getattr(plugin, "__qualname__", repr(plugin))
        yield repr(name), _constant(plugin)


def _constant(plugin: Plugin) -> Callable[[], Plugin]:
    return lambda: plugin


def _installed() -> Iterator[tuple[str, Callable[[], Plugin]]]:
    for point in _points(tuple(sys.path)):
        yield f"{point.name!r} ({_home(point)})", point.load


@lru_cache(maxsize=1)
def _points(places: tuple[str, ...]) -> Sequence[EntryPoint]:
    """Return what is installed in these folders of the path; reading it takes milliseconds.

    A plugin that is installed later is found when the process starts again.
    """
    return sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value))


def _home(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
