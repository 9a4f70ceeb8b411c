"""An egress with scripted responses."""

from penstock.core.limits import Limits
from penstock.resources.egress import Egress, EgressCaller, HttpResponse, Request


class Answers(Egress):
    """Returns the scripted responses in turn, and records the requests."""

    def __init__(self, *answers: HttpResponse | Exception) -> None:
        super().__init__(Limits())
        self.asked: list[tuple[Request, EgressCaller]] = []
        self._answers = list(answers)

    async def fetch(self, request: Request, asker: EgressCaller) -> HttpResponse:
        self.asked.append((request, asker))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def answered(body: bytes = b"", status: int = 200, **headers: str) -> HttpResponse:
    """Return an answer; a header's name is written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(status=status, url="https://x.test/", headers=named, body=body)
