"""An egress whose answers a test gives."""

from penstock.core.limits import Limits
from penstock.resources.egress import Answer, Asker, Egress, Request


class Answers(Egress):
    """Gives what the test says, in turn, and keeps what it was asked."""

    def __init__(self, *answers: Answer | Exception) -> None:
        super().__init__(Limits())
        self.asked: list[tuple[Request, Asker]] = []
        self._answers = list(answers)

    async def fetch(self, request: Request, asker: Asker) -> Answer:
        self.asked.append((request, asker))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def answered(body: bytes = b"", status: int = 200, **headers: str) -> Answer:
    """Return an answer; a header's name is written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, url="https://x.test/", headers=named, body=body)
