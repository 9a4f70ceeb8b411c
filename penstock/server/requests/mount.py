"""Where the server is mounted, and what a request asks for below that place."""

from starlette.types import Scope


def root_of(scope: Scope) -> str:
    """Return the path that the server is mounted at, usually nothing; no slash ends it."""
    root: str = scope.get("root_path", "")
    return root.rstrip("/")


def path_of(scope: Scope) -> str:
    """Return the path of a request below that place: the one by which its route is found.

    Admission and routing must see one path, so this is what Starlette's routes do.
    """
    root: str = scope.get("root_path", "")
    path: str = scope["path"]
    below = path.removeprefix(root)
    return below if below in {"", path} or below.startswith("/") else path


def way_up(scope: Scope) -> str:
    """Return the relative address of that place, as a page at this request's path writes it.

    A proxy may serve the server below a prefix that the server knows nothing of.
    """
    return "../" * (path_of(scope).count("/") - 1) or "./"
