"""The speed goals, one per line of the promise, and how each is judged from the figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.figures import Figure

Figures = dict[str, dict[str, Figure]]
Costs = dict[str, dict[str, dict[str, Any]]]
Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A goal: the median of one competitor over the median of another; without a target it only informs."""

    name: str
    scenario: str
    over: str
    under: str
    target: float | None
    better: Better
    aim: float | None = None
    tuned: str | None = None  # a peer tuned beyond its documentation, told as well but not judged


RATIOS = (
    Ratio(
        name="postgres_1_vs_raw",
        scenario="postgres_1",
        over="indelible",
        under="raw",
        target=1.3,
        aim=1.15,
        better="lower",
    ),
    Ratio(
        name="postgres_1_vs_agent_ledger",
        scenario="postgres_1",
        over="indelible",
        under="agent_ledger",
        target=0.45,
        aim=0.35,
        better="lower",
        tuned="agent_ledger_tuned",
    ),
    Ratio(
        name="postgres_20kb_vs_agent_ledger",
        scenario="postgres_20kb",
        over="indelible",
        under="agent_ledger",
        target=0.15,
        better="lower",
        tuned="agent_ledger_tuned",
    ),
    Ratio(
        name="postgres_replay_vs_agent_ledger",
        scenario="postgres_replay",
        over="indelible",
        under="agent_ledger",
        target=0.1,
        better="lower",
        tuned="agent_ledger_tuned",
    ),
    *(
        Ratio(
            name=f"postgres_{callers}_vs_agent_ledger",
            scenario=f"postgres_{callers}",
            over="indelible",
            under="agent_ledger",
            target=5,
            aim=10,
            better="higher",
            tuned="agent_ledger_tuned",
        )
        for callers in (32, 64)
    ),
    *(
        Ratio(
            name=f"postgres_{callers}_vs_raw_lane",
            scenario=f"postgres_{callers}",
            over="indelible",
            under="raw_lane",
            target=0.25,
            aim=0.4,
            better="higher",
        )
        for callers in (32, 64)
    ),
    Ratio(
        name="sqlite_1_vs_raw", scenario="sqlite_1", over="indelible", under="raw", target=1.5, aim=1.25, better="lower"
    ),
    Ratio(
        name="sqlite_1_vs_dbos",
        scenario="sqlite_1",
        over="dbos",
        under="indelible",
        target=12,
        better="higher",
        tuned="dbos_tuned",
    ),
    Ratio(
        name="sqlite_replay_vs_select",
        scenario="sqlite_replay",
        over="indelible",
        under="select",
        target=2,
        better="lower",
    ),
    Ratio(
        name="sqlite_32_vs_raw_writer",
        scenario="sqlite_32",
        over="indelible",
        under="raw_writer",
        target=0.35,
        aim=0.5,
        better="higher",
    ),
    Ratio(
        name="sqlite_4_processes_p99_vs_1",
        scenario="sqlite_processes",
        over="four_processes",
        under="one_process",
        target=4,
        better="lower",
    ),
    Ratio(
        name="postgres_1m_rows_vs_empty",
        scenario="postgres_rows",
        over="filled",
        under="empty",
        target=1.15,
        better="lower",
    ),
    *(
        Ratio(
            name=f"{name}_vs_off" if store == "postgres" else f"{name}_vs_off_sqlite",
            scenario=f"audit_{store}",
            over=over,
            under="off",
            target=target if store == "postgres" else None,
            better="higher",
        )
        for store in ("postgres", "sqlite")
        for name, over, target in (
            ("audit_on", "sealed_by_worker", 0.8),
            ("audit_on_inside", "sealed_inside", 0.8),
            ("audit_signed", "signed_by_worker", 0.7),
            ("audit_signed_inside", "signed_inside", 0.7),
        )
    ),
    Ratio(
        name="signed_appends_vs_provedex",
        scenario="appends",
        over="indelible",
        under="provedex",
        target=5,
        better="higher",
    ),
    *(
        # A whole tool call of ours (effect, arguments, result, two events) beside two of provedex's events.
        Ratio(
            name=f"signed_calls_vs_{peer}",
            scenario="signed_64",
            over="indelible",
            under=peer,
            target=None,
            better="higher",
        )
        for peer in ("provedex", "provedex_one")
    ),
    *(
        Ratio(name=name, scenario="verify", over=over, under="provedex", target=target, better="higher")
        for name, over, target in (
            ("verify_vs_provedex", "tree", 6),
            ("verify_semantics_vs_provedex", "semantics", None),
            ("verify_deep_vs_provedex", "deep", None),
        )
    ),
    *(
        Ratio(
            name=f"verify_{kind}_memory_whole_vs_tenth",
            scenario="verify_memory",
            over=kind,
            under=f"{kind}_tenth",
            target=1.25,
            better="lower",
        )
        for kind in ("tree", "semantics")
    ),
    *(
        Ratio(
            name=f"approve_{peer}_vs_indelible",
            scenario="approve_to_start",
            over=peer,
            under="indelible_postgres",
            target=None,
            better="higher",
            tuned=tuned,
        )
        for peer, tuned in (("agent_ledger", "agent_ledger_tuned"), ("dbos", None))
    ),
    Ratio(
        name="approve_postgres_vs_raw",
        scenario="approve_to_start",
        over="indelible_postgres",
        under="raw",
        target=None,
        better="lower",
    ),
    *(
        Ratio(
            name=f"policy_20_rules_{store}",
            scenario=f"policy_{store}",
            over="20_rules",
            under="without",
            target=None,
            better="lower",
        )
        for store in ("postgres", "sqlite")
    ),
    Ratio(
        name="http_pairs_vs_noop_post",
        scenario="http_per_second",
        over="indelible_pair",
        under="noop_post",
        target=0.2,
        aim=0.35,
        better="higher",
    ),
    *(
        # Time per event, in a run of 100,000 over one of 1,000; and the memory of the whole process.
        Ratio(
            name=f"run_{what}_100k_vs_1k_{store}",
            scenario=f"run_{what}_{store}",
            over="100000",
            under="1000",
            target=1.5,
            better="lower",
        )
        for what in ("append", "inspect", "resume", "verify", "verify_memory")
        for store in ("postgres", "sqlite")
    ),
    *(
        Ratio(
            name=f"run_{what}_vs_raw_{store}",
            scenario=f"run_record_{store}",
            over=what,
            under=what.replace("record", "raw"),
            target=None,
            better="higher",
        )
        for what in ("record", "record_100")
        for store in ("postgres", "sqlite")
    ),
)

PLAIN = {  # name: scenario, competitor, target
    "postgres_1m_rows_page_image_bytes": ("postgres_rows_page_images", "indelible", 2048),
    "import_ms": ("import", "indelible", 150),
    "install_mb": ("install", "indelible", 30),
}

RATES = {  # name: scenario, competitor, target
    "verify_events_per_s": ("verify", "tree", 300_000),
    "verify_semantics_events_per_s": ("verify", "semantics", 100_000),
}

COUNTED = {  # name: counters of, which, target
    "postgres_1_statements": ("postgres_fresh", "statements", 2),
    "postgres_1_round_trips": ("postgres_fresh", "round_trips", 2),
    "postgres_1_fsyncs": ("postgres_fresh", "fsyncs", 2),
    "postgres_replay_round_trips": ("postgres_replay", "round_trips", 1),
    "postgres_replay_fsyncs": ("postgres_replay", "fsyncs", 0),
    "postgres_replay_wal_bytes": ("postgres_replay", "wal_bytes", 0),
}
# The server's own background work passes by too: a fraction of a statement or of a byte per call is not the call's.
COUNTING_NOISE = 0.05
BYTES_NOISE = 8.0

APPROVALS: dict[str, tuple[str, str, str, float]] = {  # name: scenario, competitor, median or p99, target
    "approve_postgres_ms": ("approve_to_start", "indelible_postgres", "median", 3),
    "approve_postgres_p99_ms": ("approve_to_start", "indelible_postgres", "p99", 10),
    "approve_sqlite_ms": ("approve_to_start", "indelible_sqlite", "median", 5),
    "waiting_1000_postgres_percent": ("waiting_processor", "indelible_postgres_1000", "median", 1),
    "waiting_1000_sqlite_percent": ("waiting_processor", "indelible_sqlite_1000", "median", 1),
    "waiting_1000_statements_per_s": ("waiting_statements", "indelible_postgres_1000", "median", 2),
}

FED_BY = {  # figures that come from a scenario of another name
    "postgres_rows": "rows",
    "verify_memory": "verify",
    "approve_to_start": "approving",
    "policy_postgres": "approving",
    "policy_sqlite": "approving",
    "http_per_second": "serving",
    **{
        f"run_{what}_{store}": "runs"
        for what in ("append", "inspect", "resume", "verify", "verify_memory", "record")
        for store in ("postgres", "sqlite")
    },
}

WAIT_TARGET_MS = 10
WAIT_TARGET_RATIO = 25
WAKEUPS_TARGET = 0.9


def judge(figures: Figures, costs: Costs) -> dict[str, dict[str, Any]]:
    """Returns every goal whose scenario was run, with its value and whether it is met."""
    judged: dict[str, dict[str, Any]] = {}
    for goal in RATIOS:
        if goal.scenario in figures:
            judged[goal.name] = _ratio(goal, figures[goal.scenario])
    for name, (scenario, who, target) in PLAIN.items():
        if scenario in figures:
            judged[name] = _plain(figures[scenario], who, target, "lower")
    for name, (scenario, who, target) in RATES.items():
        if scenario in figures:
            judged[name] = _plain(figures[scenario], who, target, "higher")
    for name, (costs_of, which, target) in COUNTED.items():
        if costs_of in costs:
            judged[name] = _counted(costs[costs_of], which, target)
    judged |= _waits(figures)
    judged |= _approvals(figures)
    if "wakeups_32" in figures:
        judged["wakeups_on_vs_off_32"] = _wakeups(figures["wakeups_32"])
    return judged


def scenario_of(goal: str) -> str | None:
    """Returns which scenario feeds a goal; None when there is no such goal."""
    feeds = {ratio.name: FED_BY.get(ratio.scenario, ratio.scenario) for ratio in RATIOS}
    feeds |= {"postgres_1m_rows_page_image_bytes": "rows"} | dict.fromkeys(RATES, "verify")
    feeds |= {"import_ms": "footprint", "install_mb": "footprint", "wakeups_on_vs_off_32": "wakeups_32"}
    feeds |= dict.fromkeys(APPROVALS, "approving")
    feeds |= dict.fromkeys(COUNTED, "counters") | dict.fromkeys(("wait_p99_ms", "wait_vs_agent_ledger"), "waits")
    return feeds.get(goal)


def _verdict(
    value: float | None,
    target: float | None,
    better: Better,
    shown: dict[str, Figure],
    aim: float | None = None,
    slack: float = 0,
) -> dict[str, Any]:
    return {
        "value": value,
        "target": target,
        "aim": aim,
        "met": None if target is None else _is_met(value, target, better, slack),
        "better": better,
        "medians": {name: figure.median for name, figure in shown.items()},
        "spread": {name: [figure.low, figure.high] for name, figure in shown.items()},
    }


def _is_met(value: float | None, target: float, better: Better, slack: float) -> bool:
    return value is not None and (value <= target + slack if better == "lower" else value >= target - slack)


def _ratio(goal: Ratio, found: dict[str, Figure]) -> dict[str, Any]:
    shown = {name: found[name] for name in (goal.over, goal.under, goal.tuned) if name in found}
    verdict = _verdict(_over(found, goal.over, goal.under), goal.target, goal.better, shown, goal.aim)
    if goal.tuned in found:
        over, under = (goal.tuned, goal.under) if goal.under.startswith("indelible") else (goal.over, goal.tuned)
        verdict["value_against_tuned_peer"] = _over(found, over, under)
    return verdict


def _over(found: dict[str, Figure], over: str, under: str) -> float | None:
    return found[over].median / found[under].median if over in found and under in found else None


def _plain(found: dict[str, Figure], who: str, target: float, better: Better) -> dict[str, Any]:
    return _verdict(found[who].median if who in found else None, target, better, found)


def _counted(found: dict[str, dict[str, Any]], which: str, target: float) -> dict[str, Any]:
    value = found.get("indelible", {}).get(which)
    verdict = _verdict(value, target, "lower", {}, slack=BYTES_NOISE if which == "wal_bytes" else COUNTING_NOISE)
    verdict["medians"] = {name: cost[which] for name, cost in found.items()}
    return verdict


def _waits(figures: Figures) -> dict[str, dict[str, Any]]:
    rows = {name: found for name, found in figures.items() if name.startswith("waits_")}
    if not rows:
        return {}
    shown = {
        f"{who} {row.removeprefix('waits_')}": figure for row, found in rows.items() for who, figure in found.items()
    }
    ours = [_p99(found[who]) for found in rows.values() for who in found if who.startswith("indelible")]
    against = _worst(rows, "agent_ledger")
    verdict = _verdict(against, WAIT_TARGET_RATIO, "higher", shown)
    verdict["value_against_tuned_peer"] = _worst(rows, "agent_ledger_tuned")
    return {
        "wait_p99_ms": _verdict(max(ours) if ours else None, WAIT_TARGET_MS, "lower", shown),
        "wait_vs_agent_ledger": verdict,
    }


def _approvals(figures: Figures) -> dict[str, dict[str, Any]]:
    judged = {}
    for name, (scenario, who, which, target) in APPROVALS.items():
        if scenario in figures:
            found = figures[scenario].get(who)
            value = None if found is None else found.median if which == "median" else _p99(found)
            judged[name] = _verdict(value, target, "lower", figures[scenario])
    return judged


def _worst(rows: Figures, peer: str) -> float | None:
    """Returns the least favourable ratio over all numbers of processes and both stores."""
    values = [
        _p99(found[peer]) / _p99(found[who])
        for found in rows.values()
        if peer in found
        for who in found
        if who.startswith("indelible")
    ]
    return min(values) if values else None


def _p99(figure: Figure) -> float:
    return figure.p99_ms if figure.p99_ms is not None else figure.median


def _wakeups(found: dict[str, Figure]) -> dict[str, Any]:
    values = [_over(found, f"{store}_on", f"{store}_off") for store in ("postgres", "sqlite")]
    known = [value for value in values if value is not None]
    return _verdict(min(known) if known else None, WAKEUPS_TARGET, "higher", found)
