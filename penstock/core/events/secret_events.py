"""What happens with secrets in a task: which were given out, never what they are."""

from msgspec import Struct

from penstock.core.state.scope import Scope


class SecretGiven(Struct, frozen=True, kw_only=True):
    """A tool was given a secret: from now on it is taken out of all that the task records."""

    scope: Scope
    key: str
