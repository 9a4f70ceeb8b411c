"""ASCII forms of international host names; loaded late: `idna` takes 2 MiB and 45 ms."""

import idna


def ascii_name(host: str) -> str:
    """Return a name in ASCII, mapped as browsers map it (UTS 46). Raises ValueError.

    Full-width letters and soft hyphens are mapped too, so each spelling is the same host.
    """
    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError as error:
        raise ValueError(f"{host!r:.200} is not a valid host name: {error}") from None
