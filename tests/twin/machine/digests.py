"""Digests of runs to the last bit, also as a program, such as of the same text in plain Python.

With a number it prints the digests of as many random runs, one a line; without one, those of the scenarios that it
reads as JSON, one a line, each with its CPU seconds.
"""

from __future__ import annotations

import hashlib
import sys
from random import Random
from time import process_time

from tests.twin.machine.random_jobs import checkpointed, scenario
from tests.twin.machine.runs import FACTS, TABLES, Outcome, outcome
from twin.scenario import Scenario

HORIZON_S = 0.4


def digest(seed: int) -> str:
    """Digest of all that a random run found; every second one has checkpoints."""
    random = Random(seed)
    job = checkpointed(random) if seed % 2 else scenario(random, changing=False)
    return digest_of(outcome(job.with_run(horizon_s=HORIZON_S, warmup_s=0.0)))


def digest_of(found: Outcome) -> str:
    """Digest of what a run found."""
    known = [found.error] if found.run is None else [repr(getattr(found.run, each)) for each in (*TABLES, *FACTS)]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()


def main() -> None:
    """Prints digests."""
    if len(sys.argv) > 1:
        for number in range(int(sys.argv[1])):
            print(digest(number), flush=True)
        return
    for line in sys.stdin:
        job, began_s = Scenario.model_validate_json(line), process_time()
        print(digest_of(outcome(job)), process_time() - began_s, flush=True)


if __name__ == "__main__":
    main()
