"""The results of a run, as JSON, and compared with those of another run.

An attempt is one task: a case, asked once with one model. A case that is repeated has several, and
its pass rate comes with the interval in which the true rate lies, because three passes of three say
little. Shown by tests/evals/test_report.py.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.core.clock import Moment
from penstock.core.errors import ConfigError
from penstock.core.json_values.json_text import parse_json
from penstock.core.late import late
from penstock.core.messages import NOTHING_SPENT, Usage, total_usage
from penstock.core.text import one_line

Z_95 = 1.959964
"""The quantile of the normal distribution for an interval of 95 %."""


class Grade(Struct, frozen=True):
    """The score of one attempt by one scorer."""

    scorer: str
    value: float
    passed: bool
    reason: str = ""
    usage: Usage | None = None
    """The usage of a model that judged; None if none was asked."""


class Attempt(Struct, frozen=True, kw_only=True):
    """One case, asked once with one model."""

    case: str
    model: str
    """The model that was asked for; empty is the agent's."""
    number: int
    """Which repetition it is, from 1."""
    status: str
    """The state of the task: `succeeded`, `failed`, `cancelled` or `suspended`."""
    passed: bool
    """Whether the task succeeded and every scorer passed."""
    grades: tuple[Grade, ...] = ()
    error: str | None = None
    """Why there is no reply to score."""
    content: str = ""
    output: Any = None
    seconds: float | None = None
    """From the start of the task to its end, without the time in which it waited for its turn."""
    usage: Usage = NOTHING_SPENT
    task_id: str = ""
    session_id: str = ""

    @property
    def reasons(self) -> str:
        """Return why the attempt did not pass, as one line; empty if it did."""
        failed = [f"{each.scorer}: {each.reason}" for each in self.grades if not each.passed]
        return one_line("; ".join([self.error] if self.error else failed))


class Rate(Struct, frozen=True):
    """How many of some attempts passed."""

    passed: int
    attempts: int

    @property
    def value(self) -> float:
        """Return the share that passed, from 0 to 1; 0 if there are no attempts."""
        return self.passed / self.attempts if self.attempts else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the true rate, by Wilson (1927)."""
        if not self.attempts:
            return 0.0, 1.0
        n, p, z = self.attempts, self.value, Z_95
        middle, base = p + z * z / (2 * n), 1 + z * z / n
        spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, (middle - spread) / base), min(1.0, (middle + spread) / base)

    def __str__(self) -> str:
        """Return the counts, the share and its interval."""
        low, high = self.interval
        return f"{self.passed}/{self.attempts} = {self.value:.0%} (95 %: {low:.0%} to {high:.0%})"


class Change(Struct, frozen=True):
    """A case whose pass rate differs from that of an earlier run."""

    case: str
    model: str
    before: Rate | None
    """None if the earlier run has no such case."""
    after: Rate | None
    """None if this run has no such case."""

    def __str__(self) -> str:
        """Return one line: what changed, and from which rate to which."""
        name = f"{self.case} [{self.model}]" if self.model else self.case
        if self.before is None:
            return f"new    {name}"
        if self.after is None:
            return f"gone   {name}"
        word = "better" if self.after.value > self.before.value else "worse "
        return f"{word} {name}: {self.before.value:.0%} -> {self.after.value:.0%}"


class Report(Struct, frozen=True, kw_only=True, dict=True):
    """The attempts of one run.

    Example:
        >>> from penstock.evals import Report
        >>> Report(run_id="run_1", dataset="triage", agent="triage", attempts=()).pass_rate
        0.0
    """

    run_id: str
    """The name of the run, for `--since` and for going on after a kill."""
    dataset: str
    agent: str
    attempts: tuple[Attempt, ...]
    """By case, model and number."""
    started_at: Moment = Moment(0)

    @cached_property
    def rate(self) -> Rate:
        """The rate over all attempts."""
        return _rate(self.attempts)

    @property
    def pass_rate(self) -> float:
        """Return the share of attempts that passed, from 0 to 1."""
        return self.rate.value

    @cached_property
    def usage(self) -> Usage:
        """The usage of all attempts. The cost is None if it is unknown for one of them."""
        return sum_usage(self.attempts)

    @cached_property
    def judging(self) -> Usage | None:
        """The usage of models that judged, apart from that of the agent; None if none did."""
        grades = [grade for attempt in self.attempts for grade in attempt.grades]
        usages = [each.usage for each in grades if each.usage is not None]
        return _summed(usages) if usages else None

    @property
    def models(self) -> Sequence[str]:
        """Return the models, in the order of the attempts."""
        return list(dict.fromkeys(each.model for each in self.attempts))

    @property
    def failed(self) -> Sequence[str]:
        """Return the names of the cases of which an attempt did not pass."""
        return list(dict.fromkeys(each.case for each in self.attempts if not each.passed))

    @property
    def unjudged(self) -> Sequence[str]:
        """Return the names of the cases that passed without a scorer."""
        passed = (each.case for each in self.attempts if each.passed and not each.grades)
        return list(dict.fromkeys(passed))

    def attempts_at(self, case: str, model: str) -> Sequence[Attempt]:
        """Return the attempts at a case with a model."""
        return self._groups.get((case, model), ())

    def compare(self, earlier: "Report") -> Sequence[Change]:
        """Return the cases whose rate differs from an earlier run, in the order of this run.

        A run with one model is compared with an earlier one with another model, too.
        """
        before, after = earlier.rates(), self.rates()
        if len(earlier.models) == len(self.models) == 1:
            before = {(case, self.models[0]): rate for (case, _), rate in before.items()}
        keys = dict.fromkeys([*after, *before])
        changes = (Change(*key, before.get(key), after.get(key)) for key in keys)
        return [each for each in changes if _value(each.before) != _value(each.after)]

    def within(self, cases: Collection[str]) -> "Report":
        """Return the report on some of the cases only, to compare it with a run of these."""
        return replace(self, attempts=tuple(each for each in self.attempts if each.case in cases))

    def rates(self) -> dict[tuple[str, str], Rate]:
        """Return the rate of each case with each model."""
        return {key: _rate(attempts) for key, attempts in self._groups.items()}

    @cached_property
    def _groups(self) -> Mapping[tuple[str, str], Sequence[Attempt]]:
        groups: dict[tuple[str, str], list[Attempt]] = {}
        for attempt in self.attempts:
            groups.setdefault((attempt.case, attempt.model), []).append(attempt)
        return groups

    def to_json(self) -> bytes:
        """Return the whole report as JSON, from which `Report.from_json` makes it again.

        It also has the cases that no scorer judged, as `unjudged`.
        """
        whole = {**msgspec.to_builtins(self), "unjudged": self.unjudged}
        return msgspec.json.format(msgspec.json.encode(whole), indent=2)

    @classmethod
    def from_json(cls, text: bytes) -> "Report":
        """Read a report that `to_json` wrote. Raises ConfigError if it is none."""
        try:
            return msgspec.convert(parse_json(text.decode()), cls)
        except ValueError as error:
            raise ConfigError(f"not a report of penstock eval: {error}") from None

    def print(self, earlier: "Report | None" = None) -> None:
        """Print the report as a table, with the differences to an earlier run."""
        late("penstock.evals.views:print_report")(self, earlier)


def _rate(attempts: Sequence[Attempt]) -> Rate:
    return Rate(sum(each.passed for each in attempts), len(attempts))


def _value(rate: Rate | None) -> float | None:
    return None if rate is None else rate.value


def sum_usage(attempts: Sequence[Attempt]) -> Usage:
    """Return the usage of attempts together. The cost is None if it is unknown for one of them."""
    return _summed([each.usage for each in attempts])


def _summed(usages: Sequence[Usage]) -> Usage:
    total = total_usage(usages, tool_calls=sum(each.tool_calls for each in usages))
    return replace(total, model_calls=sum(each.model_calls for each in usages))
