"""The options of one message of a program, and their checks."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, TypedDict

from penstock.chat.requests import NewMessage
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import RuntimeMisuse
from penstock.core.json_values.json_text import compact
from penstock.core.profile import Profile
from penstock.models.settings import ModelSettings, stored_settings


class MessageOptions(TypedDict, total=False):
    """Options of one message: data only, because a restart must know them.

    Example:
        >>> from penstock import MessageOptions
        >>> options: MessageOptions = {"model": "openai:gpt-5", "key": "order-7"}
        >>> options["key"]
        'order-7'
    """

    session: str | None
    """The conversation to continue; None starts one."""
    model: str | None
    """`provider:model` or a configured name, for this message; None means the agent's model."""
    model_settings: ModelSettings
    """Settings of the requests for this message; they win over those of the agent."""
    profile: Profile | None
    """The profile that the work is for; None means `runtime.local`."""
    metadata: Mapping[str, str]
    """Texts that tools and dependencies read as `ctx.metadata` and `scope.metadata`."""
    key: str
    """An idempotency key: the same message with the same key is the same task."""


_OPTIONS = MessageOptions.__optional_keys__


def check_options(options: MessageOptions) -> None:
    """Raise RuntimeMisuse for an unknown option, with the nearest name, and for a live object."""
    if unknown := options.keys() - _OPTIONS:
        name = min(unknown)
        near = did_you_mean(name, [*_OPTIONS, "agent", "output"])
        raise RuntimeMisuse(f"there is no option {name!r} of a message.{near}")
    profile: Any = options.get("profile")
    if not (profile is None or isinstance(profile, Profile)):
        raise RuntimeMisuse(
            "profile of a message must be a Profile, such as Profile(profile_id='ann'), "
            f"found {profile!r}"
        )
    for name in ("model", "session", "key"):
        value: Any = options.get(name)
        if not (value is None or isinstance(value, str)):
            hint = "; pass a model object to Agent(model=...)" if name == "model" else ""
            raise RuntimeMisuse(
                f"{name} of a message must be a text, which a restart can read again, "
                f"found {value!r}{hint}"
            )


def settings_of(options: MessageOptions) -> dict[str, Any] | None:
    """Return the settings of a message's requests as JSON; None if nothing is set.

    Raises RuntimeMisuse for anything but ModelSettings.
    """
    given = options.get("model_settings")
    if given is None:
        return None
    if not isinstance(given, ModelSettings):
        raise RuntimeMisuse(
            f"model_settings of a message must be ModelSettings, found {given!r}: write "
            "model_settings=ModelSettings(temperature=0.2)"
        )
    return stored_settings(given)


def metadata_of(options: MessageOptions) -> dict[str, str] | None:
    """Return the metadata of a message. Raises RuntimeMisuse if a name or a value is not a text."""
    metadata: dict[str, Any] = dict(options.get("metadata", {}))
    if wrong := [name for name, value in metadata.items() if not isinstance(value, str)]:
        raise RuntimeMisuse(f"metadata are texts by name: the value of {wrong[0]!r} is not a text")
    return metadata or None


def hash_of(message: NewMessage) -> str:
    """Return the hash of a message: the same key with another hash is a mistake."""
    said: list[Any] = [message.content, message.agent, message.session_id, message.model]
    said += [message.output_schema, message.metadata]
    said += [file.blob_id for file in message.attachments]
    if message.model_settings is not None:  # last: keys of earlier versions stay valid
        said.append(message.model_settings)
    return sha256(compact(said).encode()).hexdigest()
