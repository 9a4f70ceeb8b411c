"""`download_url_to_file`: a file of the web, into the workspace."""

from typing import Any

from penstock.core.call import Effect
from penstock.core.call_errors import OutputTooLarge, ToolNotConfigured, tool_failure
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem
from penstock.core.stored.changes import WorkspaceChange
from penstock.resources.egress import EgressCaller, HttpResponse, Request
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import TEXT, URI, builtin, place, whole

MAX_BYTES = 67_108_864
DEFAULT_BYTES = 16_777_216
SECONDS = 60.0
_GOOD = range(200, 300)


@builtin(
    "Download a file of the web (http or https) into the workspace; an existing file is "
    "overwritten. Fails with http_status unless the server answers 2xx, and with too_large for "
    "more than max_bytes.",
    {"url": TEXT, "output_path": URI, "max_bytes?": whole(1, MAX_BYTES)},
    effect=Effect.WRITE,
)
async def download_url_to_file(input: Json, invocation: Invocation) -> Any:
    """Write the body of a response to a file."""
    target = place(input, "output_path", invocation)
    answer = await _fetch(input["url"], input.get("max_bytes", DEFAULT_BYTES), invocation)
    if answer.status not in _GOOD:
        raise tool_failure("http_status", f"{answer.url} answered with the status {answer.status}")
    change = await invocation.workspace.write(target, answer.body)
    invocation.change = WorkspaceChange(files=(change,))
    made = {"url": input["url"], "output_path": str(target), "size_bytes": change.size}
    kind = answer.headers.get("content-type")
    return made if kind is None else {**made, "content_type": kind}


async def _fetch(url: str, most: int, invocation: Invocation) -> HttpResponse:
    egress = invocation.edition.resources.egress
    if egress is None:
        raise ToolNotConfigured("requests are not possible here: no egress is configured")
    tool_id = invocation.spec.tool_id
    request = Request(url=url, max_bytes=most, max_seconds=SECONDS)
    try:
        return await egress.fetch(request, EgressCaller(tool_id=tool_id, egress=None))
    except TypeError as error:
        raise invalid(tool_id, [Problem("/url", str(error))]) from None
    except OutputTooLarge as error:
        raise tool_failure("too_large", str(error)) from None


TOOLS = (download_url_to_file,)
