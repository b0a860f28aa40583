"""What the Costream paper reports (measured on Apache Storm): q-errors as (median, 95 %), accuracies as shares."""

from __future__ import annotations

from collections.abc import Mapping

Reported = Mapping[str, tuple[float, ...]]
"""For each metric (median, 95 %) of the q-error, or (accuracy,)."""


def _reported(
    *, t: tuple[float, float], le: tuple[float, float], lp: tuple[float, float], ro: float, s: float
) -> Reported:
    return {
        "throughput_per_s": t,
        "processing_latency_s": lp,
        "e2e_latency_s": le,
        "backpressured": (ro / 100,),
        "success": (s / 100,),
    }


TABLE_III = {
    "Costream": _reported(t=(1.33, 5.60), le=(1.37, 13.28), lp=(1.46, 13.90), ro=87.89, s=94.96),
    "Flat Vector": _reported(t=(9.92, 590.34), le=(24.96, 827.59), lp=(22.87, 458.14), ro=68.70, s=76.85),
}

TABLE_IV = {
    "Costream": _reported(t=(1.37, 8.28), le=(1.59, 25.33), lp=(1.54, 17.78), ro=88.04, s=87.13),
    "Flat Vector": _reported(t=(15.63, 282.50), le=(63.79, 869.85), lp=(27.85, 282.50), ro=72.83, s=68.32),
}

TABLE_V = {
    "stronger-ram": _reported(t=(1.66, 5.88), le=(1.85, 29.08), lp=(1.88, 11.32), ro=85.37, s=77.00),
    "stronger-cpu": _reported(t=(1.72, 9.40), le=(1.67, 9.43), lp=(1.75, 6.81), ro=86.59, s=93.14),
    "stronger-bandwidth": _reported(t=(1.48, 6.55), le=(1.75, 17.18), lp=(1.63, 13.89), ro=86.59, s=87.25),
    "stronger-latency": _reported(t=(1.52, 5.60), le=(3.55, 30.90), lp=(3.83, 19.43), ro=88.89, s=92.93),
    "weaker-ram": _reported(t=(1.79, 7.60), le=(1.72, 13.69), lp=(1.49, 13.27), ro=91.03, s=78.79),
    "weaker-cpu": _reported(t=(1.61, 13.16), le=(2.75, 111.53), lp=(2.96, 77.56), ro=75.00, s=86.67),
    "weaker-bandwidth": _reported(t=(1.42, 5.30), le=(1.46, 5.30), lp=(1.68, 12.94), ro=91.92, s=92.59),
    "weaker-latency": _reported(t=(3.25, 33.65), le=(2.10, 54.13), lp=(6.09, 406.83), ro=67.82, s=74.51),
}

FIGURE_7 = {"q_error": 1.6, "accuracy": 0.85}
"""Section VII-A: the median q-error is "1.6 or better", the accuracy "above 85 %", over all hardware ranges."""

FIGURE_8 = {"q_error": 1.6}
"""Section VII-A: "below 1.6" for every query type."""

FIGURE_12 = {"operators": 2.6, "placement": 2.22, "table1": 1.37}
"""Section VII-G: median q-error of the end-to-end latency by what the model sees."""
