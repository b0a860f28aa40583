"""What BriskStream's paper says in words of its tables and figures, beside the rows of ours; a function a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from papers.briskstream.published import (
    EXECUTE_OF_STORM,
    MOST_REMOTE_FACTOR,
    NEARLY_LINEAR_TO,
    OVER_FIX_L,
    OVER_FIX_U,
    WITHOUT_RMA_OF_IDEAL,
)
from papers.shapes import Row, apart, shape, span, within

Rows = Sequence[Mapping[str, Any]]
FITTED = "fitted: the times and sizes of FD, SD and LR aim at the middle of this range, those of WC do not"
LINEAR, POOR, CLEARLY = 0.85, 0.9, 1.1
"""Of linear; of the efficiency on half the sockets; times the step before."""


def _on(rows: Rows, server: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["server"] == server]


def _gains(rows: Rows, planner: str) -> dict[str, float]:
    return {row["application"]: row["gain"] for row in _on(rows, "A") if row["planner"] == planner}


def table3(rows: Rows) -> list[Row]:
    """Times by distance."""
    off = [abs(row["of_estimated"]) for row in _on(rows, "A")]
    ordered = all(
        near["simulated_ns"] <= far["simulated_ns"] * 1.01
        for name in {row["operator"] for row in rows}
        for near, far in _pairs([row for row in _on(rows, "A") if row["operator"] == name])
    )
    return [
        shape("a tuple takes longer the farther it comes", "yes", "yes" if ordered else "no", ordered),
        shape("its estimates, Server A", "as printed", f"off by {max(off):.1%} at most", max(off) < 0.05, "fitted"),
        apart("Server B", "-", "above", "the paper measures Server A alone"),
    ]


def _pairs(rows: Rows) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return [(near, far) for near in rows for far in rows if near["hops"] < far["hops"]]


def table4(rows: Rows) -> list[Row]:
    """The model's errors."""
    errors, theirs = [row["free_error"] for row in rows], [row["paper_error"] for row in _on(rows, "A")]
    off = [abs(row["simulated_kps"] / row["paper_measured_kps"] - 1.0) for row in _on(rows, "A")]
    return [
        shape("relative error of the estimate", span(theirs), span(errors), max(errors) <= max(theirs)),
        apart(
            "levels on Server A", "as printed", f"off by {max(off):.1%} at most", "execution times are fitted to them"
        ),
        apart("Server B", "-", "above", "the paper estimates Server A alone"),
    ]


def table7(rows: Rows) -> list[Row]:
    """Compression."""
    published = {row["ratio"]: row["simulated_kps"] for row in _on(rows, "A") if row["planner"] == "as published"}
    best = max(published, key=lambda ratio: published[ratio])
    known = [published[ratio] for ratio in sorted(published) if ratio >= 5]
    trend = known == sorted(known, reverse=True)
    return [
        shape("the best ratio, RLAS as published", "5", str(best), best == 5, "r = 1 and 3 are misprinted there"),
        shape("beyond 5, the more compressed the worse", "yes", "yes" if trend else "no", trend),
        apart("seconds of planning", "23 to 93", "above", "another machine, and a limit on the nodes looked at"),
    ]


def fig8(rows: Rows) -> list[Row]:
    """Where time goes."""
    factor = max(row["factor"] for row in _on(rows, "A") if row["engine"] == "brisk")
    shares = [row["brisk_share"] for row in _on(rows, "A") if row["engine"] == "storm"]
    ends = " to ".join(f"{share:.0%}" for share in EXECUTE_OF_STORM)
    return [
        shape("remote round trip against local, at most", f"{MOST_REMOTE_FACTOR}", f"{factor:.2g}",
              within([factor], MOST_REMOTE_FACTOR / 2, MOST_REMOTE_FACTOR * 2), "within a factor of two counts"),
        shape("Execute of brisk, of Storm's", ends, span(shares, ".1%"), within(shares, *EXECUTE_OF_STORM),
              "the storm profile is of far slower machines"),
    ]  # fmt: skip


def fig9(rows: Rows) -> list[Row]:
    """rows: of applications."""
    by = {sockets: [row["efficiency"] for row in _on(rows, "A") if row["sockets"] == sockets] for sockets in (4, 8)}
    falls = [eight / four for four, eight in zip(by[4], by[8], strict=False)]
    if not falls:
        return [apart("scaling to four and eight sockets", "almost linear, then poor", "-", "not that many here")]
    whole = "one socket's cores fit whole replicas badly, so that more sockets may be better than linear"
    return [
        shape(f"of linear on {NEARLY_LINEAR_TO} sockets", "almost 1, all applications", span(by[4]),
              min(by[4]) >= LINEAR, whole),
        shape("efficiency on 8, of that on 4", "poor, all applications", span(falls), max(falls) < POOR,
              "where RLAS finds a plan that hardly crosses trays, nothing makes it poor"),
        apart("other engines", "drawn", "above", "profiles, not systems"),
    ]  # fmt: skip


def fig10(rows: Rows) -> list[Row]:
    """Gaps."""
    ours = _on(rows, "A")
    shares, (low, high) = [row["without_of_ideal"] for row in ours], WITHOUT_RMA_OF_IDEAL
    remote = [
        (row["without_of_ideal"] - row["of_ideal"]) / (1 - row["of_ideal"]) for row in ours if row["of_ideal"] < 1
    ]
    parts = "the plan is that for the machine with distances, and its operators fit cores and channels less evenly"
    return [
        shape("W/o rma, of ideal", f"{low} to {high}", span(shares), within(shares, low, high), parts),
        shape("remote memory's part of the gap", "the main reason", span(remote) if remote else "-",
              within(remote, 0.5, math.inf), "whether it is half or more"),
    ]  # fmt: skip


def fig12(rows: Rows) -> list[Row]:
    """Fixed capabilities."""
    found = []
    for planner, (low, high) in (("RLAS_fix(L)", OVER_FIX_L), ("RLAS_fix(U)", OVER_FIX_U)):
        for application, gain in _gains(rows, planner).items():
            why = FITTED if application != "WC" else "not fitted to"
            found.append(
                shape(f"{application}: over {planner}", f"{low:.0%} to {high:.0%}", f"{gain:.0%}",
                      within([gain], low, high), why)
            )  # fmt: skip
    return [*found, apart("Server B", "-", "above", "the paper names no figure of it")]


def fig13(rows: Rows) -> list[Row]:
    """Placements."""
    others = [row for row in rows if row["strategy"] != "RLAS"]
    servers = sorted({row["server"] for row in rows})
    best = {server: max(row["of_rlas"] for row in _on(others, server)) for server in servers}
    gap = {server: sum(row["of_rlas"] for row in _on(others, server)) / len(_on(others, server)) for server in best}
    texts = {server: f"the next reaches {share:.0%}" for server, share in best.items()}
    found = [
        shape(f"RLAS is the best, Server {server}", "generally", text, best[server] <= 1.0)
        for server, text in texts.items()
    ]
    if len(gap) == 2:
        text = f"others' mean {gap['A']:.0%} on A, {gap['B']:.0%} on B"
        found.append(shape("its lead is larger on Server B", "generally", text, gap["B"] < gap["A"]))
    return found


def fig14(rows: Rows) -> list[Row]:
    """Random plans."""
    better, best = sum(row["better"] for row in rows), max(row["best_again"] for row in rows)
    plans = sum(row["plans"] for row in rows)
    return [shape("random plans better than RLAS's", "none", f"{better} of {plans:,}; the best {best:.0%}", best < 1.0)]


def fig15(rows: Rows) -> list[Row]:
    """Who fetches from whom."""
    found = []
    for server, paper in (("A", "from one socket, mostly"), ("B", "from all much more uniformly")):
        shares = [row["share"] for row in _on(rows, server)]
        if shares:
            same = max(shares) > 0.5 if server == "A" else max(shares) < 2.0 / len(shares)
            text = f"at most {max(shares):.0%} from one of {len(shares)}"
            found.append(shape(f"Server {server}: from where tuples are fetched", paper, text, same))
    return found


def fig16(rows: Rows) -> list[Row]:
    """Factors."""
    gains = {step: [row["gain"] for row in _on(rows, "A") if row["step"] == step] for step in ("+JumboTuple", "+RLAS")}
    return [
        shape("jumbo tuples", "important", f"times {span(gains['+JumboTuple'])}", min(gains["+JumboTuple"]) > CLEARLY,
              "rests on an assumed share of other overhead"),
        shape("RLAS on top", "critical", f"times {span(gains['+RLAS'])}", min(gains["+RLAS"]) > CLEARLY,
              "FD, SD and LR are fitted to it"),
        apart("Simple", "Storm", "above", "modelled by ratios that the paper gives of word count alone"),
    ]  # fmt: skip


def hosts(rows: Rows) -> list[Row]:
    """Beyond the paper."""
    networks = list(dict.fromkeys(row["gigabits"] for row in rows))
    most = [max(row["share"] for row in rows if row["gigabits"] == network) for network in networks]
    best = sum(share <= 1.0 for share in most)
    ours = (
        f"hosts and sockets together: the best on {best} of {len(networks)} networks, else within {max(most) - 1:.0%}"
    )
    return [apart("hosts and sockets at once", "-", ours, "the paper plans the sockets of one host")]


def fig3(_rows: Rows) -> list[Row]:
    """Percentiles."""
    return [apart("percentiles other than 50", "-", "above", "the paper shows the 50th alone")]


def engines(rows: Rows) -> list[Row]:
    """Systems."""
    ours = [row for row in rows if row["engine"] == "brisk"]
    ratios = [row["p99_ms"] / row["paper_p99_ms"] for row in ours if row["p99_ms"]]
    return [
        shape("brisk's latency at saturation, 99 %, of the paper's", "1", span(ratios), within(ratios, 0.5, 2.0),
              "full channels, whose credits are assumed, decide it"),
        apart("storm and flink", "systems", "above", "profiles; their unlimited queues are not modelled"),
    ]  # fmt: skip
