"""Published numbers of the BriskStream paper (SIGMOD 2019): its tables, and the numbers in its text."""

from __future__ import annotations

from papers.interface import cells_of

TABLE_3 = cells_of(
    "paper_measured_ns paper_estimated_ns",
    {
        ("A", "splitter", 0): (1612.8, 1612.8),
        ("A", "splitter", 1): (1666.5, 1991.1),
        ("A", "splitter", 3): (1708.2, 1994.9),
        ("A", "splitter", 4): (2050.6, 2923.7),
        ("A", "splitter", 7): (2371.3, 3196.4),
        ("A", "counter", 0): (612.3, 612.3),
        ("A", "counter", 1): (611.4, 665.2),
        ("A", "counter", 3): (623.1, 665.9),
        ("A", "counter", 4): (889.9, 837.9),
        ("A", "counter", 7): (870.2, 888.4),
    },
)
"""Time T of WC's operators on Server A, by the socket of the operator; its producer is on socket 0."""

TABLE_4 = cells_of(
    "paper_measured_kps paper_estimated_kps paper_error",
    {
        ("A", "WC"): (96390.8, 104843.3, 0.08),
        ("A", "FD"): (7172.5, 8193.9, 0.14),
        ("A", "SD"): (12767.6, 12530.2, 0.02),
        ("A", "LR"): (8738.3, 9298.7, 0.06),
    },
)
"""Throughputs of optimised plans on the eight sockets of Server A."""

TABLE_5_P99_MS = {
    "WC": {"brisk": 21.9, "storm": 37881.3, "flink": 5689.2},
    "FD": {"brisk": 12.5, "storm": 14949.8, "flink": 261.3},
    "SD": {"brisk": 13.5, "storm": 12733.8, "flink": 350.5},
    "LR": {"brisk": 204.8, "storm": 16747.8, "flink": 4886.2},
}
"""Quantiles (99 %) of the end-to-end latency on Server A."""

TABLE_7 = cells_of(
    "paper_kps paper_seconds",
    {
        ("A", 1): (10140.2, 93.4),
        ("A", 3): (10079.5, 48.3),
        ("A", 5): (96390.8, 23.0),
        ("A", 10): (84955.9, 46.5),
        ("A", 15): (77773.6, 45.3),
    },
)
"""Throughput of WC and planning time on Server A by ratio. 10,140.2 and 10,079.5 are a tenth of the trend, as printed.
"""

PERCENTILE = 50.0
"""Percentile of profiled times that instantiates the model (Section 3.1)."""

EXECUTE_OF_STORM, OTHERS_OF_STORM = (0.05, 0.24), 0.10
"""Shares of Storm's execution time and (about) other overhead of WC's operators (Section 6.3 on Fig. 8)."""
MOST_REMOTE_FACTOR = 9.4
"""Ratio, "up to", of the round trip of an operator far from its producer (Section 6.3 on Fig. 8)."""

NEARLY_LINEAR_TO = 4
"""Number of sockets up to which all applications scale "almost linearly" (Section 6.3 on Fig. 9b)."""
WITHOUT_RMA_OF_IDEAL = (0.89, 0.95)
"""Shares of eight times one socket that the plans reach if remote memory costs nothing (Section 6.3 on Fig. 10)."""

OVER_FIX_L, OVER_FIX_U = (0.19, 0.39), (1.19, 4.55)
"""Least and largest gains of RLAS over fixed capabilities (Section 6.4 on Fig. 12)."""
