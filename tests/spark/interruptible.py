"""A corpus of slow fake runs on one worker, as a program: python -m tests.spark.interruptible FOLDER"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from spark.corpus import write_corpus
from spark.session import session
from tests.spark.fakes import Slow, make
from twin.corpus.manifest import CorpusSpec

SPEC = CorpusSpec(runs=40, seed=7, space="fake")

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
    with session("local[1]") as spark:
        write_corpus(
            spark,
            Path(sys.argv[1]),
            SPEC,
            make,
            Slow(0.2),
            chunk_runs=4,
            progress=lambda done, total: print(done, total, flush=True),
        )
