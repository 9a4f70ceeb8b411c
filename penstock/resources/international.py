"""International names of hosts, as DNS is asked for them."""

import idna


def ascii_name(host: str) -> str:
    """Return a name in ASCII, mapped as browsers map it (UTS 46). Raises ValueError.

    What is spelled otherwise, with full-width letters or a soft hyphen, is the same host.
    """
    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError as error:
        raise ValueError(f"no host can be called {host!r:.200}: {error}") from None
