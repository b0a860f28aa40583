"""Statements of ALBIC's text on its real jobs, compared with the rows of Figs. 6 to 9 and 12 to 14."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from papers.interface import Row, Rows, apart, shape, span, within

STABLE = 1.0
"""Largest load distance, in percentage points, that the paper calls "stable": "consistently below 1 %"."""
COMPARED: Mapping[str, str] = {
    "ALBIC, one pair a round": "so few pairs need more rounds",
    "ALBIC, pairs for 60 % of the budget": "",
}
"""Ways that are compared with the paper's ALBIC, with the reason why one may be behind after our rounds."""
ABOUT = 0.1
"""Relative deviation within which a number agrees with one that the paper gives in words."""


def evenness(rows: Rows) -> Rows:
    """Statements on Fig. 6: how even each way keeps the job, right after migrations."""
    by = {row["way"]: row for row in rows}
    most = {way: by[way]["planned_most"] for way in by}
    merging = by["two choices"]["cpu"] / by["none"]["cpu"]
    return [
        shape("the MILP, highest", f"below {STABLE:g} % at all times", f"{most['MILP']:.2g}", most["MILP"] < STABLE),
        shape("Flux, highest", "significant fluctuations", f"{most['Flux']:.2g}", most["Flux"] > STABLE,
              f"above {STABLE:g} counts"),
        apart("Flux in numbers", "up to 7 %", f"{most['Flux']:.2g}", "how fast loads change is our own choice"),
        shape("two choices, highest", "not consistently good", f"{most['two choices']:.2g}",
              most["two choices"] > STABLE),
        shape("two choices, CPU", "a continuous overhead", f"{merging:.2f} times that of none", merging > 1.0,
              "what merging costs"),
    ]  # fmt: skip


def migrations(rows: Rows) -> Rows:
    """Statements on Fig. 7: migrations of Flux and the MILP."""
    flux, milp = (next(row for row in rows if row["way"] == way) for way in ("Flux", "MILP"))
    return [
        shape("migrations, Flux", "may be more than are necessary",
              f"{flux['mean']:.3g} a round for the MILP's {milp['mean']:.3g}", flux["mean"] > milp["mean"],
              "both stop within the same band of load distance; Flux also where no single move helps"),
        shape("the limit stops Flux", "and so it is less even", f"in {flux['at_limit']:.0f} % of the rounds, the MILP "
              f"in {milp['at_limit']:.0f} %", flux["at_limit"] > milp["at_limit"]),
    ]  # fmt: skip


def limits(rows: Rows) -> Rows:
    """Statements on Fig. 8: load distances by limit on migrations."""
    means = [row["planned"] for row in rows]
    ten = next(row["planned_most"] for row in rows if row["limit"] == "10")
    return [
        shape("more migrations allowed", "highly correlated with balance; no limit is best",
              f"{span(means)} points", means == sorted(set(means), reverse=True)),
        shape("a limit of 10", "significant spikes", f"{ten:.2g} points at most", ten > STABLE,
              f"above {STABLE:g} counts: our loads change little in a round"),
    ]  # fmt: skip


def pauses(rows: Rows) -> Rows:
    """Statements on Fig. 9: pauses by limit on migrations."""
    *limited, free = (row["pauses"] for row in rows)
    times = free / max(limited)
    return [
        shape("pauses together, no limit", "very large: many key groups migrate",
              f"{times:.2g} times those of the highest limit", times > 2.0, "more than twice counts"),
        apart("pause of a key group", "2.5 s", f"{span([row['pause'] for row in rows])} ms",
              "its state and the network are our own choice"),
    ]  # fmt: skip


def about(value: float, published: float) -> bool:
    """Whether a number agrees with one that the paper gives in words."""
    return within([value / published], 1.0 - ABOUT, 1.0 + ABOUT)


def trend(rows: Rows, index: str, so: Callable[[float], bool]) -> list[Row]:
    """Statements on all three jobs, compared with its ALBIC as published, and with several pairs a round.

    index: what the paper says of the load index. so: whether a load index of ours agrees.
    """
    by, last = {row["way"]: row for row in rows}, last_of(rows)
    cola, found = by["COLA"], []
    for way, late in COMPARED.items():
        row = by[way]
        found += [
            shape(f"{way}: collocation", "gradually COLA's", f"{row[last]:.3g} for {cola[last]:.3g} %",
                  about(row[last], cola[last]), late),
            shape(f"{way}: load distance", "consistently lower than COLA's",
                  f"{row['distance']:.3g} for {cola['distance']:.3g}; at most {row['most']:.3g} for {cola['most']:.3g}",
                  row["distance"] < cola["distance"] and row["most"] < cola["most"],
                  "while it collocates, ALBIC allows 10 points; COLA has done so after a round"),
            shape(f"{way}: load index", index, f"to {row['index']:.3g} %", so(row["index"]), late),
        ]  # fmt: skip
    return found


def delays(rows: Rows) -> Rows:
    """Statements on Fig. 12 (Real Job 2)."""
    cola = _cola(rows)
    few = "ours is told the present nodes, so that few groups move"
    return [
        *trend(rows, "from 100 to 50 %", lambda index: about(index, 50.0)),
        shape("COLA: collocation", "the optimum at once", f"{cola['after_1']:.3g} % after round 1",
              about(cola["after_1"], max(row[last_of(rows)] for row in rows))),
        shape("COLA: load index", "to 75 %", f"to {cola['index']:.3g} %", about(cola["index"], 75.0), few),
        shape("COLA: migrations", "close to 200 a round", f"{cola['migrations']:.3g}", about(cola["migrations"], 200.0),
              few),
    ]  # fmt: skip


def routes(rows: Rows) -> Rows:
    """Statements on Fig. 13 (Real Job 3)."""
    most = max(row[last_of(rows)] for row in rows)
    return [
        *trend(rows, "falls", lambda index: index < 100.0),
        shape("collocation", "half that of Real Job 2", f"at most {most:.3g} %", about(most, 50.0)),
        apart("COLA: load index", "of half of the input", f"to {_cola(rows)['index']:.3g} %", "ours is of all of it"),
    ]


def weather(rows: Rows) -> Rows:
    """Statements on Fig. 14 (Real Job 4)."""
    cola = _cola(rows)
    return [
        *trend(rows, "falls", lambda index: index < 100.0),
        shape("COLA: collocation", "around 61 %", f"{cola[last_of(rows)]:.3g} %", about(cola[last_of(rows)], 61.0)),
        apart("COLA in each round", "exceeds the capacity", f"{cola['migrations']:.3g} migrations a round",
              "what a key group costs to move is our own choice"),
    ]  # fmt: skip


def last_of(rows: Rows) -> str:
    """Column of the collocation after the last reported round."""
    return max((key for key in rows[0] if key.startswith("after_")), key=lambda key: int(key.removeprefix("after_")))


def _cola(rows: Rows) -> Row:
    return next(row for row in rows if row["way"] == "COLA")
