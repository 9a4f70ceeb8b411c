"""The table of providers of models, for docs/howto/model.md."""

from collections.abc import Iterator, Sequence

from penstock.models.providers import PROVIDERS, Provider


def providers() -> Iterator[Sequence[str]]:
    """Yield each provider: its name, what it needs, and the variables of its key."""
    for name, provider in PROVIDERS.items():
        yield f"`{name}`", _needs(provider), _key(provider)


def _needs(provider: Provider) -> str:
    if not provider.package:
        return ""
    extra = provider.extra if "[" in provider.extra else f"penstock[{provider.extra}]"
    return f"`pip install '{extra}'`"


def _key(provider: Provider) -> str:
    variables = " or ".join(f"`{each}`" for each in provider.key_env)
    return variables if provider.needs_key or not variables else f"{variables}, if it wants one"
