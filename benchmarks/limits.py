"""How much random ordinary jobs bear: `twin capacity` and the rate model alone beside a plain bisection of exact runs.

Run: python -m benchmarks.limits FOLDER [--jobs N] [--seed S] [--workers N] [--show NUMBER]

Factors of at least 1: of the largest load at which a job keeps up, by `twin capacity` (wanted: 1.03 at most) and by the
rate model alone, and of processing latency at 0.5 and 0.8 of it. Wanted of the rate model: 1.02 at the median, 1.15 at
95 %, and of each prediction beyond 1.3, that `scenarios.beside` named something. FOLDER keeps an answer a job, from
which an interrupted benchmark goes on. 200 jobs take an hour or so on a core.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.ordinary.jobs import PLAIN
from benchmarks.table import print_table
from optimizers.objectives import at_rate
from scenarios.beside import doubts
from scenarios.executing import Processes
from scenarios.files.scenario_file import dump, parse_scenario
from streamtwin import capacity
from twin.deployment import steady_rates
from twin.errors import BadInput
from twin.files import write_text
from twin.profiles import PROFILES
from twin.randomness import child_seed, random_stream
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

# random jobs ---------------------------------------------------------------------------------------------------------
# Random jobs of the kind that people write: sources with a few steps each, a meeting of streams, state by key, a sink.
#
# The same seed and number give the same job, whatever the other jobs are. Every second one has Flink's profile, with
# its chains and buffers, and one parallelism for most operators; the others are plain: an engine without costs of its
# own, and channels of some records. Service times are such that the fullest operator or host would be 40 to 140 % busy.
# All kinds are among those that compiled code runs, as a limit takes some thirty runs.


SOURCES = ("orders", "clicks", "payments")
WARMUP_S = 10
RECORDS = 20_000
"""Records that are offered in the measured part of a run, if it takes 20 to 100 s: chance moves a limit by 0.7 %."""


def random_job(seed: int, number: int) -> Scenario:
    """One random job."""
    draft = _Draft(random_stream(seed, f"limits {number}"), flink=number % 2 == 1)
    return draft.scenario(f"job-{number}")


class _Draft:
    """A job while it is drawn. heads: the operators so far that have no consumer."""

    def __init__(self, rng: np.random.Generator, flink: bool) -> None:
        self.rng, self.flink = rng, flink
        self.operators: list[dict[str, Any]] = []
        self.streams: list[dict[str, str]] = []
        self.keys: dict[str, Any] = {}
        self.rates: dict[str, float] = {}
        for name in SOURCES[: self._pick((1, 2, 3), (0.5, 0.4, 0.1))]:
            self._source(name)
        heads = [self._steps(name) for name in self.rates]
        self._end(self._by_key(self._together(heads) if len(heads) > 1 else heads))

    def _pick(self, values: tuple[Any, ...], weights: tuple[float, ...] | None = None) -> Any:
        return values[self.rng.choice(len(values), p=weights)]

    def _chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _between(self, low: float, high: float) -> float:
        """A number between these, evenly in its log, of two digits as people write them."""
        return float(f"{np.exp(self.rng.uniform(np.log(low), np.log(high))):.2g}")

    def _add(self, kind: str, name: str, producers: list[str], cost: float | None = 1.0, **more: Any) -> list[str]:
        """An operator behind others. cost: of a record, over that of a usual one; None: what the engine says."""
        if cost is not None and not (self.flink and self._chance(0.3)):
            more["service_time_s"] = cost * self._between(5e-5, 2e-3)
            if self._chance(0.3):
                more["service_scv"] = self._pick((0.0, 0.25, 2.0))
        self.operators.append({"kind": kind, "name": name, **more})
        self.streams += [{"producer": producer, "consumer": name} for producer in producers]
        return [name]

    def _source(self, name: str) -> None:
        columns = {"ints": self._pick((1, 2, 3)), "strings": self._pick((0, 1, 3)), "doubles": self._pick((0, 1, 2))}
        size = {"record_bytes": self._pick((300, 1000))} if self.flink else {}
        topic = {"kind": "kafka-source", "partitions": self._pick((4, 6, 12))} if self._chance(0.4) else {}
        self._add(topic.pop("kind", "source"), name, [], 0.1, columns=columns, **size, **topic)
        self.rates[name] = self._between(100, 1000)

    def _steps(self, source: str) -> str:
        """None to three steps behind a source."""
        head = source
        for number in range(self._pick((0, 1, 2, 3), (0.15, 0.35, 0.35, 0.15))):
            kind = self._pick(("map", "filter", "flat", "async", "lookup"), (0.35, 0.3, 0.1, 0.15, 0.1))
            name = f"{ {'map': 'parse', 'filter': 'valid', 'flat': 'split'}.get(kind, 'enrich') }-{source}-{number}"
            waits = {"latency_s": self._between(2e-3, 6e-2), "latency_scv": self._pick((0.25, 1.0, 2.0))}
            waits |= {"capacity": self._pick((5, 20, 100)), "ordered": self._chance(0.5)}
            if kind == "map":
                self._add("map", name, [head])
            elif kind == "filter":
                self._add("filter", name, [head], 0.5, selectivity=round(self.rng.uniform(0.2, 0.95), 2))
            elif kind == "flat":
                self._add("map", name, [head], selectivity=self._pick((2, 3, 5)))
            elif kind == "async":
                self._add("async", name, [head], 0.3, **waits)
            else:
                self._add("lookup-join", name, [head], 0.3, hit_ratio=round(self.rng.uniform(0.5, 0.95), 2), **waits)
            head = name
        return head

    def _together(self, heads: list[str]) -> list[str]:
        """Streams that meet: in a join, or all at the next operator."""
        way = self._pick(("union", "join", "temporal"), (0.45, 0.4, 0.15))
        if way == "union":
            return heads
        (one, other), rest = heads[:2], heads[2:]
        came = sum(list(self.rates.values())[:2])
        seconds = self._pick((1.0, 2.0, 5.0))
        keys = max(10, int(came * seconds * self._between(0.2, 3)))
        groups = {"key_groups": self._pick((32, 128))}
        if way == "join":
            window = {"policy": "time", "size_s": seconds} | ({"slide_s": 1.0} if self._chance(0.3) else {})
            head = self._add("join", "matched", [one, other], 0.5, window=window, selectivity=1 / keys, **groups)
        else:
            head = self._add("temporal-join", "priced", [one, other], 0.5, side=other, **groups)
        return head + rest

    def _by_key(self, heads: list[str]) -> list[str]:
        """State by key, as most jobs have."""
        kind = self._pick(("time", "sliding", "count", "keyed", "session", "none"), (0.3, 0.15, 0.1, 0.2, 0.1, 0.15))
        if kind == "none":
            return heads
        groups = self._pick((32, 128))
        keys = max(groups, int(self._between(20, 5000)))
        if kind == "keyed":
            head = self._add("keyed-state", "profile", heads, keys=keys, key_groups=groups, state_bytes_per_key=200)
        elif kind == "session":
            gap_s = self._pick((1.0, 3.0))
            keys = max(groups, int(sum(self.rates.values()) * gap_s / 2))
            head = self._add("session", "visits", heads, keys=keys, key_groups=groups, gap_s=gap_s)
        else:
            window: dict[str, Any] = {"policy": "time", "size_s": self._pick((1.0, 2.0, 5.0))}
            if kind == "sliding":
                window = {"policy": "time", "size_s": 5.0, "slide_s": 1.0}
            elif kind == "count":
                window = {"policy": "count", "size_records": self._pick((10, 100))}
            by = {"group_by": "int", "groups": keys, "key_groups": groups}
            head = self._add("aggregate", "totals", heads, 0.5, function="sum", window=window, **by)
        if self._chance(0.15):
            self.keys[head[0]] = {"zipf": self._pick((0.4, 0.8))}
        return head

    def _end(self, heads: list[str]) -> None:
        if self._chance(0.3):
            heads = self._add("map", "format", heads, 0.5)
        if self._chance(0.15):
            self._add("external-sink", "store", heads, 0.1, capacity=self._pick((4, 16)), latency_s=2e-3)
        else:
            self._add("sink", "store", heads, 0.3)

    # where it runs ---------------------------------------------------------------------------------------------------

    def scenario(self, name: str) -> Scenario:
        """The job on hosts of its own, with service times that fit them."""
        count, cores = self._pick((1, 2, 3), (0.4, 0.4, 0.2)), self._pick((1, 2, 4, 8), (0.2, 0.3, 0.3, 0.2))
        hosts = [f"worker-{number}" for number in range(count)]
        usual = self._pick((1, 2, 3, 4, 6)) if self.flink else 0
        placement = {each["name"]: self._places(hosts, usual, each) for each in self.operators}
        measured_s = round(float(np.clip(RECORDS / sum(self.rates.values()), 20, 100)), -1)
        document = {
            "name": name,
            "query": {"operators": self.operators, "streams": self.streams},
            "cluster": {
                "hosts": [
                    {
                        "name": host,
                        "cpu_percent": 100 * cores,
                        "ram_mb": 32_000,
                        "bandwidth_mbps": 1000,
                        "latency_ms": 0.5,
                    }
                    for host in hosts
                ]
            },
            "plan": {"placement": placement},
            "workload": {
                "arrivals": {
                    source: {"law": self._pick(("poisson", "constant"), (0.8, 0.2)), "rate_per_s": rate}
                    for source, rate in self.rates.items()
                },
                "keys": self.keys,
            },
            "engine": self._engine(),
            "run": {"horizon_s": WARMUP_S + measured_s, "warmup_s": WARMUP_S, "period_s": 1},
        }
        self._fit(parse_scenario(yaml.safe_dump(document), name), float(cores))
        return parse_scenario(yaml.safe_dump(document), name)

    def _places(self, hosts: list[str], usual: int, operator: dict[str, Any]) -> list[str]:
        if self.flink:
            subtasks = usual if self._chance(0.85) else 1
            return [hosts[number % len(hosts)] for number in range(subtasks)]
        subtasks = self._pick((1, 2, 3, 5), (0.5, 0.25, 0.15, 0.1)) if operator["kind"] != "source" else 1
        return [self._pick(tuple(hosts)) for _ in range(subtasks)]

    def _engine(self) -> dict[str, Any]:
        if self.flink:
            return PROFILES["flink"].model_dump(mode="json", exclude_none=True) | {"chaining": True}
        return PLAIN | {"channel_records": self._pick((20, 100, 1000))}

    def _fit(self, drawn: Scenario, cores: float) -> None:
        """Scales service times so that the fullest operator or host is as busy as it should be."""
        rates = steady_rates(drawn.query, self.rates)
        fullest, by_host = 0.0, dict.fromkeys((host.name for host in drawn.cluster.hosts), 0.0)
        for operator in self.operators:
            places = drawn.plan.placement[operator["name"]]
            each = rates[operator["name"]].in_per_s * operator.get("service_time_s", 2e-6) / len(places)
            fullest = max(fullest, each)
            for place in places:
                by_host[place] += each / cores
        scale = self.rng.uniform(0.4, 1.4) / max(fullest, *by_host.values())
        for operator in self.operators:
            if "service_time_s" in operator:
                operator["service_time_s"] = float(f"{operator['service_time_s'] * scale:.3g}")


# asking --------------------------------------------------------------------------------------------------------------
# What a job bears, by bisection of runs, by `twin capacity` and by the rate model; and latencies below that.


PRECISION = 0.01
"""Width of the bracket of each limit, as a share."""
FARTHEST = 64.0
"""Factor on the rates, up or down, beyond which no limit is looked for."""
PARTS = (0.5, 0.8)
"""Shares of the limit at which latencies are compared."""
SEED, SEEDS = 2, 2
"""Seed of all runs, and number of limits by bisection, of runs for each latency, and of repetitions for `twin
capacity`, the fewest that it takes. They have the same seeds, as chance alone moves the limits of some jobs by a
tenth."""
BEYOND = (1.1, 1.5, 2.0, 4.0)
"""Factors on a border at which it is seen whether it was one, or a run that failed by chance."""


def largest(holds: Callable[[float], bool], start: float = 1.0) -> float:
    """Largest load at which something holds, by bisection: the middle of a bracket; nan if none is found. Where it
    holds at a load of `BEYOND` too, the search goes on from there."""
    border = _border(holds, start)
    if math.isnan(border):
        return border
    above = next((border * beyond for beyond in BEYOND[::-1] if holds(border * beyond)), None)
    return border if above is None else largest(holds, above)


def _border(holds: Callable[[float], bool], start: float) -> float:
    good, bad = 0.0, math.inf
    load = start
    while bad > good * (1.0 + PRECISION):
        if holds(load):
            good = load
        else:
            bad = load
        if good > start * FARTHEST or bad < start / FARTHEST:
            return math.nan
        load = good * 2.0 if bad == math.inf else bad / 2.0 if good == 0.0 else math.sqrt(good * bad)
    return math.sqrt(good * bad)


def reads_all(job: Scenario) -> bool:
    """Whether a run of the job reads what comes, and has results; queues within the job may still grow at its end."""
    metrics = simulate(job).metrics
    return metrics.success and not metrics.backpressured


def predicted(job: Scenario, metric: str) -> float:
    """A metric by the rate model."""
    return float(RateModel().predict(job, [job.plan])[metric][0])


def asked(job: Scenario) -> dict[str, Any]:
    """All figures of a job, as JSON holds them; see `__main__`. unseen: what makes each prediction doubtful."""
    seeds, model = [child_seed(SEED, number) for number in range(SEEDS)], RateModel()
    limits = [largest(partial(_holds, job, seed)) for seed in seeds]
    limit, unseen = float(np.mean(limits)), {"rates": list(model.blind_to(job))}
    found: dict[str, Any] = {"runs": limit, "by seed": limits, "unseen": unseen}
    found["rates"] = largest(lambda load: predicted(at_rate(job, load), "backpressured") < 0.5)
    try:
        answer = capacity(job, find_max="load", replications=SEEDS, precision=2 * PRECISION, seed=SEED).result
        found["capacity"] = answer.value if answer.status == "found" else answer.status
    except BadInput as error:
        found["capacity"] = str(error)
    if math.isnan(limit):
        return found
    for part in PARTS:
        known = at_rate(job, part * limit)
        ages_s = [simulate(known.with_run(seed=seed)).metrics.processing_latency_s for seed in seeds]
        age_s = float(np.mean([age.mean for age in ages_s if age is not None] or [math.nan]))
        found[f"latency {part}"] = [predicted(known, "processing_latency_s"), age_s]
        unseen[f"latency {part}"] = list(doubts(model, known))
    return found


def _holds(job: Scenario, seed: int, load: float) -> bool:
    return reads_all(at_rate(job, load).with_run(seed=seed))


def kept(folder: Path, seed: int, number: int) -> None:
    """Asks one job, and keeps the answers, unless they are there."""
    path = folder / f"{seed}-{number}.json"
    if not path.exists():
        write_text(path, json.dumps(asked(random_job(seed, number)), indent=1))


def factors(found: Mapping[str, Any]) -> dict[str, float]:
    """Factors of at least 1 between what was asked and what runs show; inf where one of them has no answer."""
    pairs = {name: (found.get(name), found["runs"]) for name in ("capacity", "rates")}
    pairs |= {f"latency {part}": found.get(f"latency {part}", (None, None)) for part in PARTS}
    return {name: _factor(*pair) for name, pair in pairs.items()}


def _factor(said: object, right: object) -> float:
    known = all(isinstance(each, int | float) and 0.0 < each < math.inf for each in (said, right))
    return math.exp(abs(math.log(said / right))) if known else math.inf  # type: ignore[operator]


# the table -----------------------------------------------------------------------------------------------------------


FAR, FAR_CAPACITY = 1.3, 1.03
"""Factors beyond which a job is listed: by the rate model, if it did not say that it is unsure, and by capacity."""
NEAR = 1.15
"""Factor up to which a prediction is a good one."""


def rows(answers: Mapping[int, Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows of the table: by figure, of all jobs, of plain ones (even numbers) and of Flink's."""
    kinds = {"all": [*answers.values()]}
    for first, kind in enumerate(("plain", "Flink")):
        kinds[kind] = [each for number, each in answers.items() if number % 2 == first]
    found: list[tuple[Any, ...]] = []
    for name in ("capacity", "rates", "latency 0.5", "latency 0.8"):
        for kind, those in kinds.items():
            if those:
                values = np.array([factors(each)[name] for each in those])
                named = np.array([bool(each["unseen"].get(name)) for each in those])
                middle, most = np.sort(values)[[len(values) // 2, min(len(values) - 1, math.ceil(0.95 * len(values)))]]
                figures = float(middle), float(most), float(values.max())
                found.append((name, kind, len(values), *figures, int((~named & (values > FAR)).sum())))
    return found


def listed(answers: Mapping[int, Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows of jobs whose answers are far off without a word, the farthest first."""
    found = []
    for number, each in answers.items():
        off = factors(each)
        silent = {
            name: value
            for name, value in off.items()
            if name != "capacity" and value > FAR and not each["unseen"].get(name)
        }
        if off["capacity"] > FAR_CAPACITY:
            silent["capacity"] = off["capacity"]
        found += [(number, name, value, each.get(name), each["runs"]) for name, value in silent.items()]
    return sorted(found, key=lambda row: -row[2])


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--show", type=int, help="number of a job, to be printed as a scenario file instead")
    options = parser.parse_args(arguments)
    if options.show is not None:
        print(dump(random_job(options.seed, options.show)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    with Processes(options.workers) as pool:
        pool.each(partial(kept, options.folder, options.seed), range(options.jobs), lambda _number, _none: None)
    asked = {n: json.loads((options.folder / f"{options.seed}-{n}.json").read_text()) for n in range(options.jobs)}
    answers = {n: each for n, each in asked.items() if math.isfinite(each["runs"])}
    header = ("factor of", "kind", "jobs", "median", "95 %", "worst", f"silent beyond {FAR}")
    print_table(f"{options.jobs} random jobs of seed {options.seed}, beside exact runs", header, rows(answers))
    far = listed(answers)
    print_table("Far off", ("job", "factor of", "factor", "said (and right)", "load by runs"), far[:40])
    print(f"\n{options.jobs - len(answers)} jobs have no limit among the loads that are tried, and are left out")
    for name in ("rates", "latency 0.5", "latency 0.8"):
        said = [factors(each)[name] for each in answers.values() if each["unseen"][name]]
        good = sum(each <= NEAR for each in said)
        print(f"{name}: something is named of {len(said)} predictions, {good} of them within a factor of {NEAR}")


if __name__ == "__main__":
    main()
