"""What happens with secrets in a task: which were given out, never what they are."""

from dataclasses import dataclass

from penstock.core.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretGiven:
    """A tool was given a secret: from now on it is taken out of all that the task records."""

    scope: Scope
    key: str
