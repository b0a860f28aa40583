"""Measurements of a job's course (`course`): results, latencies, checkpoints, failures, late records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.ordinary.course import Course, Stretch
from benchmarks.ordinary.items import RECORD, Item
from benchmarks.ordinary.passing import EVENT_TIME
from benchmarks.ordinary.records import Array
from benchmarks.ordinary.subtasks import Kept, Subtask


def handles(job: Mapping[str, Any]) -> bool:
    """Whether a job has what `brute` does not know: event time, checkpoints, pauses."""
    timed = any(each["kind"] in EVENT_TIME for each in job["operators"].values())
    return timed or bool(job["checkpoints"]) or bool(job["engine"].get("noise", {}).get("gc_interval_s"))


def ages(t: Array, taken: Array, born: Array) -> dict[str, float]:
    """Means and quantiles of latencies [s] of results that come at t."""
    found = {}
    for label, since in (("Lp", taken), ("Le", born)):
        found[label] = float((t - since).mean())
        found |= {
            f"{label} p{percent}": float(np.quantile(t - since, percent / 100, method="inverted_cdf"))
            for percent in (50, 95, 99)
        }
    return found


class Whole:
    """One run of a job by brute force, with random numbers of its own."""

    def __init__(self, job: Mapping[str, Any], seed: int) -> None:
        self.job, self.course = job, Course(job, seed)
        self.start_s, self.horizon_s = float(job["run"]["warmup_s"]), float(job["run"]["horizon_s"])
        self.results: list[Item] = []
        self.done: dict[int, tuple[float, float, list[Kept]]] = {}
        self.found: dict[str, float] = {}

    def run(self) -> dict[str, float]:
        """Measurements after the warm-up, by name."""
        for stretch in self.course.stretches():
            self._results(stretch)
            for number, end_s in stretch.ended.items():
                kept = [task.kept[number] for task in stretch.passing.tasks.values()]
                self.done.setdefault(number, (stretch.passing.triggers[number], end_s, kept))
            for (name, _), task in stretch.passing.tasks.items():
                self._flow(name, task, stretch)
        for (name, _), task in stretch.passing.tasks.items():
            each = self.job["operators"][name]
            if each["kind"] in EVENT_TIME and each["kind"] != "consolidate" and "late_to" not in each:
                self._add(f"late {name}", sum(item.late and item.t < self.horizon_s for item in task.out))
        t, taken, born = np.array([(each.t, each.taken, each.born) for each in self.results]).T
        measured = (t >= self.start_s) & (t < self.horizon_s)
        latencies = ages(t[measured], taken[measured], born[measured])
        rate = float(measured.sum()) / (self.horizon_s - self.start_s)
        return {"T": rate} | latencies | self.found | self.course.found | self._checkpoints()

    def _add(self, name: str, value: float) -> None:
        self.found[name] = self.found.get(name, 0.0) + float(value)

    def _results(self, stretch: Stretch) -> None:
        """Results that are seen in a stretch: when they come, or when the checkpoint that has them is complete."""
        for place, task in stretch.passing.tasks.items():
            if place[0] not in self.course.sinks():
                continue
            turns = sorted((task.kept[number].turn, end_s) for number, end_s in stretch.ended.items())
            for each in stretch.passing.results(place):
                seen_s = each.t
                if self.job["checkpoints"].get("sinks") == "exactly-once":
                    seen_s = next((end_s for turn, end_s in turns if turn >= each.t), np.inf)
                if stretch.from_s <= seen_s < stretch.until_s:
                    self.results.append(each.at(seen_s))

    def _flow(self, name: str, task: Subtask, stretch: Stretch) -> None:
        """Adds the rates of what comes and leaves, and the busy share of time, of a subtask."""
        begin_s, end_s = max(stretch.from_s, self.start_s), min(stretch.until_s, self.horizon_s)
        if end_s <= begin_s:
            return
        seconds, each = self.horizon_s - self.start_s, self.job["operators"][name]
        spans = np.clip(np.array(task.worked).reshape(-1, 2), begin_s, end_s)
        self._add(f"busy {name}", (spans[:, 1] - spans[:, 0]).sum() / seconds / sum(each["at"].values()))
        coming = [item.t for channel in task.channels for item in channel if item.what == RECORD]
        if task.source:
            coming = [item.taken for item in task.out if item.what == RECORD]
        self._add(f"in {name}", sum(begin_s <= t < end_s for t in coming) / seconds)
        if name not in self.course.sinks():
            leaving = [i.t for i in task.out if i.what == RECORD and (not i.late or "late_to" in each)]
            self._add(f"out {name}", sum(begin_s <= t < end_s for t in leaving) / seconds)

    def _checkpoints(self) -> dict[str, float]:
        done = [each for each in self.done.values() if each[0] >= self.start_s]
        if not done:
            return {"checkpoints": 0.0} if self.job["checkpoints"] else {}
        return {
            "checkpoints": float(len(done)),
            "checkpoint s": float(np.mean([end_s - at_s for at_s, end_s, _ in done])),
            "aligned s": float(np.mean([max(each.turn - each.first for each in kept) for *_, kept in done])),
            "put aside": float(np.mean([sum(each.aside for each in kept) for *_, kept in done])),
            "bytes": float(np.mean([sum(map(self.course.uploaded, kept)) for *_, kept in done])),
        }
