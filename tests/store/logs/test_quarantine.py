"""Which logs of a dead process are blamed, and which may resume together."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from penstock.core.clock import Moment
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.store.logs.quarantine import LeaseHistory, Quarantine

LIMITS = Limits()
LEASE_MS = 3000
MIN_WATCH_MS, MAX_WATCH_MS = 10_000, 600_000
RULES = Quarantine(LIMITS)


def log(name: str, **changed: int | bool) -> LeaseHistory:
    """Return a log held by a process that died at 100,000."""
    lease_until = 100_000 + LEASE_MS
    history = LeaseHistory(LogId(name), owner="x", lease_until=lease_until, tried_at=99_000)
    return replace(history, **{"watch_ms": MIN_WATCH_MS, **changed})


def after(*held: LeaseHistory) -> dict[str, tuple[int, int, int]]:
    """Return the deaths, the cohort, and the deaths alone of each log after the death."""
    buried = RULES.buried(held)
    assert all((each.owner, each.lease_until) == (None, 0) for each in buried)
    return {each.log_id: (each.deaths, each.cohort, each.alone) for each in buried}


# ---- blame ---------------------------------------------------------------------------------------

BLAME: dict[str, tuple[list[LeaseHistory], dict[str, tuple[int, int, int]]]] = {
    "the only log is blamed alone": ([log("a")], {"a": (1, 1, 1)}),
    "the first death of many is blamed on nobody alone": (
        [log("a"), log("b")],
        {"a": (1, 2, 0), "b": (1, 2, 0)},
    ),
    "the second is blamed on those that got no further": (
        [log("a", deaths=1), log("b", deaths=1), log("c", deaths=1, is_stuck=False)],
        {"a": (2, 2, 0), "b": (2, 2, 0), "c": (1, 1, 0)},
    ),
    "a suspect alone on probation is blamed alone": (
        [log("a", deaths=3, cohort=2, alone=1)],
        {"a": (4, 1, 2)},
    ),
    "what began beside a suspect begins with its first death": (
        [log("a", deaths=3, cohort=2), log("new"), log("on", deaths=4, alone=4, is_stuck=False)],
        {"a": (4, 1, 1), "new": (1, 2, 0), "on": (1, 2, 0)},
    ),
    "a suspect whose probation is over is not blamed beside one on probation": (
        [log("a", deaths=2, cohort=2), log("long", deaths=2, cohort=2, tried_at=1)],
        {"a": (3, 1, 1), "long": (2, 2, 0)},
    ),
    "nor beside what is new": (
        [log("long", deaths=2, cohort=2, tried_at=1), log("new")],
        {"long": (2, 2, 0), "new": (1, 1, 0)},
    ),
    "but it is blamed when nothing else is left": (
        [log("long", deaths=2, cohort=2, tried_at=1)],
        {"long": (3, 1, 1)},
    ),
}


@pytest.mark.parametrize(("held", "expected"), BLAME.values(), ids=list(BLAME))
def test_blame(held: list[LeaseHistory], expected: dict[str, tuple[int, int, int]]) -> None:
    assert after(*held) == expected


@pytest.mark.parametrize(
    ("tried_at", "watch_ms", "expected"),
    [
        (99_000, MIN_WATCH_MS, MIN_WATCH_MS + 2_000),
        (60_000, MIN_WATCH_MS, MIN_WATCH_MS + 80_000),
        (60_000, 200_000, 200_000),
        (-900_000, MIN_WATCH_MS, MAX_WATCH_MS),
        (101_000, MIN_WATCH_MS, MIN_WATCH_MS),
    ],
    ids=["short", "long", "never shorter than before", "never longer than the limit", "clocks"],
)
def test_a_suspect_is_watched_for_twice_the_time_its_process_survived(
    tried_at: int, watch_ms: int, expected: int
) -> None:
    (buried,) = RULES.buried([log("a", deaths=1, tried_at=tried_at, watch_ms=watch_ms)])
    assert buried.watch_ms == expected


# ---- who was cut together ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "taker", "seconds", "expected"),
    [
        (["out"], "another", 0, {"a", "b0"}),
        (["good"], "another", 0, set()),
        (["good", "out"], "another", 1.9, set()),
        (["good", "out"], "another", 2, {"a"}),
        (["out"], "x", 0, {"a"}),
    ],
    ids=[
        "all leases ran out: the process is dead",
        "another lease is good: too early to tell",
        "still too early: leases are renewed one after another",
        "the process renews others: it lost this one only",
        "a process that is late does not bury itself",
    ],
)
def test_orphaned_finds_the_logs_that_a_dead_process_held(
    others: list[str], taker: str, seconds: float, expected: set[str]
) -> None:
    own = log("a")
    now = Moment(own.lease_until + round(1000 * seconds))
    until = {"out": now, "good": now + 1}
    held = [
        own,
        *(log(f"b{number}", lease_until=until[each]) for number, each in enumerate(others)),
    ]
    assert {each.log_id for each in RULES.orphaned(own, held, now, taker)} == expected


# ---- which logs may start ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "watched", "expected"),
    [
        ((1, 9), [], True),
        ((2, 9), [], True),
        ((1, 9), [(1, 5)] * 40, True),
        ((1, 9), [(2, 9)], False),
        ((2, 9), [(1, 9)], False),
        ((2, 9), [(2, 9)] * 4, True),
        ((2, 9), [(2, 9)] * 5, False),
        ((2, 2), [(2, 2)], False),
        ((3, 9), [(2, 9)], False),
        ((3, 4), [(3, 5)], False),
    ],
    ids=[
        "cut once, nobody watched",
        "suspect, nobody watched",
        "cut once beside any number of the same",
        "cut once beside a suspect",
        "suspect beside what was cut once",
        "less than half of the group",
        "half of the group is at work",
        "one of two",
        "of another number of deaths",
        "of another group",
    ],
)
def test_the_histories_of_two_logs_decide_if_they_may_run_together(
    wanted: tuple[int, int], watched: list[tuple[int, int]], expected: bool
) -> None:
    own = LeaseHistory(LogId("own"), deaths=wanted[0], cohort=wanted[1])
    others = [
        LeaseHistory(LogId(str(n)), deaths=deaths, cohort=cohort)
        for n, (deaths, cohort) in enumerate(watched)
    ]
    assert RULES.admits(own, others) is expected


# ---- the rules together, in simulated time -------------------------------------------------------

STEP = 250


@dataclass
class Work:
    """A task that ends after a while, or kills its process."""

    takes: int
    kills: bool = False
    since: int = 0
    outcome: str = ""
    at: int = 0
    """When it ended."""


@dataclass
class World:
    """A process that is restarted whenever it dies, and what it works on."""

    works: dict[str, Work]
    kills: Iterable[int] = ()
    logs: dict[str, LeaseHistory] = field(default_factory=dict)
    deaths: int = 0

    def run(self, until: int) -> None:
        boots_at, kills = 0, list(self.kills)
        for now in range(0, until, STEP):
            if now < boots_at:
                continue
            if now == boots_at:
                self._bury()
            self._start(now)
            is_killed = bool(kills) and now >= kills[0]
            if is_killed:
                kills.pop(0)
            if self._work(now) or is_killed:
                self.deaths += 1
                boots_at = now + 1000
            if all(each.outcome for each in self.works.values()):
                return

    def _bury(self) -> None:
        dead = [each for each in self.logs.values() if each.owner]
        self.logs |= {each.log_id: each for each in RULES.buried(dead)}

    def _start(self, now: int) -> None:
        for name, work in self.works.items():
            if now >= work.since and not work.outcome and name not in self.logs:
                self.logs[name] = LeaseHistory(LogId(name))
        free = [each for each in self.logs.values() if each.owner is None]
        for each in sorted(free, key=lambda each: (each.deaths, each.tried_at)):
            watched = [
                other
                for other in self.logs.values()
                if other.owner and other.deaths and now < other.watched_until
            ]
            if each.alone >= LIMITS.recoveries:
                self._end(each.log_id, "failed", now)
            elif not each.deaths or RULES.admits(each, watched):
                self.logs[each.log_id] = replace(each, owner="x", tried_at=now)

    def _work(self, now: int) -> bool:
        """Work for one step; returns whether the process died."""
        for name, each in list(self.logs.items()):
            if each.owner is None:
                continue
            self.logs[name] = replace(each, lease_until=now + LEASE_MS)
            if now - each.tried_at >= self.works[name].takes:
                if self.works[name].kills:
                    return True
                self._end(name, "done", now)
        return False

    def _end(self, name: str, outcome: str, now: int) -> None:
        self.works[name].outcome, self.works[name].at = outcome, now
        del self.logs[LogId(name)]


def innocent(count: int, takes: int = 8000, every: int = 0) -> dict[str, Work]:
    return {f"innocent {n}": Work(takes, since=n * every) for n in range(count)}


def poison(count: int, takes: int, since: int = 0) -> dict[str, Work]:
    return {f"poison {n}": Work(takes, kills=True, since=since) for n in range(count)}


WORLDS: dict[str, tuple[dict[str, Work], int, int]] = {
    "one alone": (poison(1, 1000), 5, 15_000),
    "one among ten": (innocent(10) | poison(1, 0), 11, 75_000),
    "one among fifty": (innocent(49) | poison(1, 0), 12, 90_000),
    "the first of fifty": (poison(1, 0) | innocent(49), 12, 90_000),
    "one that needs 5 s to kill": (innocent(49) | poison(1, 5000), 12, 160_000),
    "one that needs 40 s, among long calls": (
        innocent(20, 600_000) | poison(1, 40_000),
        12,
        3_700_000,
    ),
    "two among fifty": (innocent(48) | poison(2, 500), 24, 250_000),
    "two among twenty": (innocent(18, 1000) | poison(2, 250), 20, 120_000),
    "one that takes nearly as long as the others": (
        innocent(19, 1000) | poison(1, 750),
        11,
        120_000,
    ),
    "two that kill after different times": (
        innocent(20) | {"slow": Work(5000, kills=True)} | poison(1, 250),
        24,
        250_000,
    ),
    "one that comes later": (innocent(30) | poison(1, 250, since=4000), 13, 120_000),
    "one, and new work all the time": (innocent(300, every=500) | poison(1, 1000), 14, 400_000),
    "two, and new work all the time": (innocent(300, every=500) | poison(2, 1000), 28, 600_000),
}


@pytest.mark.parametrize(("works", "deaths", "within"), WORLDS.values(), ids=list(WORLDS))
def test_tasks_that_kill_the_process_fail_and_all_others_finish(
    works: dict[str, Work], deaths: int, within: int
) -> None:
    world = World({name: Work(each.takes, each.kills, each.since) for name, each in works.items()})
    world.run(4_000_000)
    ends = {name: each.outcome for name, each in world.works.items()}
    assert ends == {name: "failed" if each.kills else "done" for name, each in works.items()}
    assert world.deaths <= deaths
    assert max(each.at for each in world.works.values()) <= within


@pytest.mark.parametrize("every", [2000, 3500, 7000])
@pytest.mark.parametrize("count", [4, 10, 50])
def test_kills_from_outside_fail_nothing(every: int, count: int) -> None:
    """`kill -9` a dozen times in a row, deploys, a machine that runs out of memory."""
    world = World(innocent(count), kills=range(every, 13 * every, every))
    world.run(4_000_000)
    assert {each.outcome for each in world.works.values()} == {"done"}
    assert world.deaths == 12
