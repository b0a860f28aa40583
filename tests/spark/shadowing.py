"""Shadow that is fed a few files at a time, as a program: python -m tests.spark.shadowing METRICS OUT"""

from __future__ import annotations

import sys
from pathlib import Path

from spark.session import session
from tests.spark.test_metric_windows import shadow

if __name__ == "__main__":
    with session("local[1]") as spark:
        shadow(spark, Path(sys.argv[1]), Path(sys.argv[2]), once=False)
