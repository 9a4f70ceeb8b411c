"""Roles of models under `[models.roles]` that stand for no model at all."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.core.diagnostics import Diagnostic
from penstock.core.errors import ConfigError
from penstock.models.names import ModelNames


def check_roles(roles: Mapping[str, str], file: Path) -> Iterator[Diagnostic]:
    """Yield a finding for each role that means nothing; `file` is where settings stand."""
    names = ModelNames(roles=roles)
    for role, meaning in roles.items():
        try:
            names.model(f"@{role}")
        except ConfigError as error:
            yield Diagnostic(
                code="model-role",
                message=str(error),
                file=file.name,
                line=_line(file, role),
                suggestion=f'write a model in the place of "{meaning}"',
            )


def _line(file: Path, role: str) -> int:
    """Return where a role is set; the first line where a variable or a program does it."""
    key = re.compile(rf"""\s*(models\.|roles\.)*["']?{re.escape(role)}["']?\s*=""")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    begun = next((at for at, line in enumerate(lines) if "roles" in line), 0)
    return next((at for at, line in enumerate(lines, 1) if at > begun and key.match(line)), 1)
