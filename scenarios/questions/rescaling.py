"""What `--rescale` makes of a running job: which operators change together, and which chains come apart.

`OPERATOR=N` changes an operator with all that must have as many subtasks: what is chained to it, and what forward
streams tie to it. `parallelism=N` is the job's parallelism, as Flink has it: N for all operators that have as many
subtasks as most. Those that cannot change keep theirs, with what is tied to them. Beside it, `OPERATOR=N` is the number
of that operator alone, as by Flink's `setParallelism`, or `scan.parallelism` of a table. Where it differs from that of
the others, a chain comes apart, and a forward stream becomes rebalance, as in Flink.

Flink finds the state of an operator in a savepoint by the operator's id. Where a program gives none, it makes the ids
from the graph of operators, in which it counts those that are chained, so that no savepoint fits once a chain has
changed (StreamGraphHasherV2). A SQL query gives none unless it runs from a compiled plan (`table.exec.uid.generation`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from scenarios.files.scenario_file import parted
from twin.chaining import fused, links_of, trees, written
from twin.errors import BadInput, suggest
from twin.event_checks import together
from twin.job import compile
from twin.partitionings import REBALANCE
from twin.plan import Location
from twin.query import Query, Stream, Windowed
from twin.scenario import Scenario
from twin.scheduling import as_many, resized
from twin.spec import parse
from twin.workload import group_count

JOB = "parallelism"
"""What stands for the whole job in place of an operator, unless an operator is called so."""
FORM = "OPERATOR=4, OPERATOR=HOST,HOST or parallelism=4"
_COUNT = re.compile(r"-?[0-9]{1,18}")


class Rescaled(NamedTuple):
    """scenario: the job that is changed, in which chains that the change parts are apart from the start. events: what
    is scaled, without the time. notes: what the change means beyond that, in words."""

    scenario: Scenario
    events: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()


class _Wanted(NamedTuple):
    """Subtasks that are asked for. where: the option, for errors. places: of each; empty: the engine finds them."""

    where: str
    number: int
    places: tuple[str, ...] = ()


def rescaled(given: Scenario, texts: Sequence[str]) -> Rescaled:
    """What `--rescale` options ask for, in their order. Raises BadInput if they ask for what cannot be."""
    names = [operator.name for operator in given.query.operators]
    asked: dict[str, _Wanted] = {}
    for text in texts:
        name, wanted = parted(text, "--rescale", FORM, empty=False)
        if name not in names and name != JOB:
            raise BadInput(f"--rescale {text}: unknown operator {name!r}; {suggest(name, [*names, JOB])}")
        if name in asked:
            raise BadInput(f"--rescale {text}: {name} has a number already; give one")
        asked[name] = _read(wanted, given, f"--rescale {text}")
    whole = asked.pop(JOB) if JOB in asked and JOB not in names else None
    if whole is not None:
        return _of_job(given, whole, asked)
    for name, each in asked.items():
        head = together(name, given)[0]
        if head not in asked or asked[head].number != each.number:
            goes = f"{name!r} runs as one with {head!r} and goes where that goes; name {head!r}"
            raise BadInput(f"{each.where}: {goes}, or give {JOB}=N beside it, which parts them")
    found = _changes(given, asked)
    _check_savepoint(given, found.joined, " ".join(each.where for each in asked.values()))
    return Rescaled(given, found.events, found.joined)


def place(text: str, given: Scenario, where: str) -> str:
    """Place in the form of a plan. Raises BadInput for an unknown host."""
    try:
        host = Location.parse(text.strip()).host
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None
    hosts = [each.name for each in given.cluster.hosts]
    if host not in hosts:
        raise BadInput(f"{where}: unknown host {host!r}; {suggest(host, hosts)}")
    return text.strip()


def _read(wanted: str, given: Scenario, where: str) -> _Wanted:
    if _COUNT.fullmatch(wanted):
        if int(wanted) < 1:
            raise BadInput(f"{where}: {wanted} subtasks; give a whole number from 1, or places")
        return _Wanted(where, int(wanted))
    places = tuple(place(each, given, where) for each in wanted.split(","))
    return _Wanted(where, len(places), places)


# operators that change together --------------------------------------------------------------------------------------


class _Changes(NamedTuple):
    """events: that scale. after: the job as it is then. joined: words on what the engine chains then."""

    events: tuple[Mapping[str, Any], ...]
    after: Scenario
    joined: tuple[str, ...]


def _changes(job: Scenario, asked: Mapping[str, _Wanted]) -> _Changes:
    """What scales each of these operators, and all that is tied to it."""
    now, found, by = job, dict[str, tuple[str, ...]](), dict[str, str]()
    for name, wanted in asked.items():
        heads = dict.fromkeys(together(each, now)[0] for each in (name, *as_many(now, name)))
        placed = resized(now, name, wanted.number, wanted.where, on=wanted.places)
        for head in heads:
            if head in found and len(found[head]) != wanted.number:
                raise BadInput(f"{wanted.where}: {name} has as many subtasks as {by[head]}; give both the same number")
        found |= {head: placed[head] for head in heads}
        by |= dict.fromkeys(heads, name)
        now = now.model_copy(update={"plan": now.plan.with_placement(now.plan.placement | placed)})
    before, then = (links_of(job.query, fused(job.query, each.plan, job.engine)) for each in (job, now))
    joined = (
        f"{producer} and {consumer} are chained from then on, while they stay apart in the run"
        for producer, consumer in sorted(then - before)
    )
    events = ({"kind": "scale", "operator": head, "placement": places} for head, places in found.items())
    return _Changes(tuple(events), now, tuple(joined))


def _check_savepoint(job: Scenario, changed: Sequence[str], where: str) -> None:
    """Raises BadInput, with the remedy, if no savepoint fits as chains have changed, which `changed` has in words."""
    rescaling = job.engine.rescaling
    if changed and rescaling.stops and rescaling.generated_ids:
        raise BadInput(
            f"{where}: {changed[0]}; the engine makes the ids of operators from their chains, as of SQL "
            "(engine.rescaling.generated_ids), so it would refuse the savepoint ('Cannot map checkpoint/savepoint "
            "state for operator'); give all that is chained the same number, or run SQL from a compiled plan, which "
            "keeps the ids (--set engine.rescaling.generated_ids=false)"
        )


# the job's parallelism -----------------------------------------------------------------------------------------------


def _of_job(given: Scenario, whole: _Wanted, own: Mapping[str, _Wanted]) -> Rescaled:
    """The job at another parallelism, with operators that have numbers of their own."""
    if whole.places:
        raise BadInput(f"{whole.where}: a job's parallelism is a number, as in {JOB}=4; places are of an operator")
    where = " ".join(each.where for each in (whole, *own.values()))
    wanted, kept = _numbers(given, whole.number, {name: each.number for name, each in own.items()})
    apart, parting = _apart(given, wanted)
    changing = {name: each for name, each in own.items() if each.places or wanted[name] != given.plan.parallelism(name)}
    for name in (each.name for each in apart.query.topological):
        if wanted[name] != given.plan.parallelism(name) and changing.keys().isdisjoint(as_many(apart, name)):
            changing[name] = whole
    if not changing:
        raise BadInput(f"{where}: this changes nothing{''.join(f'; {each}' for each in kept)}")
    found = _changes(apart, changing)
    words = list(_words(given, parting, wanted))
    _check_savepoint(given, [*words, *found.joined], where)
    costs = (f"{each}; {_cost(found.after, stream)}" for each, stream in zip(words, parting, strict=True))
    return Rescaled(apart, found.events, (*kept, *costs, *found.joined))


def _numbers(given: Scenario, count: int, own: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    """Subtasks of each operator if the job's parallelism is `count`; and which keep theirs nevertheless, in words. own:
    numbers of operators that have them alone."""
    before = {each.name: given.plan.parallelism(each.name) for each in given.query.topological}
    usual = max(Counter(before.values()).items(), key=lambda each: (each[1], each[0]))[0]
    wanted, kept = dict(before), list[str]()
    for name in (each for each in before if before[each] == usual != count):
        tied = [each for each in as_many(given, name) if each not in own]
        why = next(filter(None, (_stays(given.query, each) for each in tied)), "")
        if not why:
            wanted[name] = count
        elif name == tied[0]:
            kept.append(f"{', '.join(tied)}: {usual} as before, as {why}")
    return {**wanted, **own}, kept


def _stays(query: Query, name: str) -> str:
    """Reason why an operator keeps its subtasks whatever the job's parallelism is; empty if it does not."""
    operator = query.operator(name)
    if operator.pinned:
        return f"{name} is pinned"
    if isinstance(operator, Windowed) and not operator.keyed:
        return f"{name} aggregates all records without a key"
    if group_count(query, name, 1) == 1:
        return f"all records of {name} have one key"
    whole = any(how.whole and not how.copies for how in map(query.partitioning, query.inputs(name)))
    return f"all records go to one subtask of {name}" if whole else ""


# chains that come apart ----------------------------------------------------------------------------------------------


def _apart(given: Scenario, wanted: Mapping[str, int]) -> tuple[Scenario, list[Stream]]:
    """The job in which nothing is chained, or dealt forward, between operators that are to have unlike numbers of
    subtasks; and the streams between those."""
    query, plan = given.query, given.plan
    within = links_of(query, fused(query, plan, given.engine))
    parting = [
        each
        for each in query.streams
        if wanted[each.producer] != wanted[each.consumer]
        and ((each.producer, each.consumer) in within or query.partitioning(each).paired)
    ]
    if not parting:
        return given, []
    cut = {(each.producer, each.consumer) for each in parting}
    before = {name: first for first, name in links_of(query, plan.fused) - cut}
    dealt = tuple(_dealt(each, query, cut) for each in query.streams)
    data = given.model_dump(mode="json")
    data["query"]["streams"] = [each.model_dump(mode="json") for each in dealt]
    data["plan"]["fused"] = trees(query, before)
    return parse(Scenario, data, where="--rescale"), parting


def _dealt(stream: Stream, query: Query, cut: Set[tuple[str, str]]) -> Stream:
    """Stream that is dealt in turn if it is cut; one that is dealt by key stays so."""
    if (stream.producer, stream.consumer) not in cut or query.partitioning(stream).keeps_keys:
        return stream
    return stream.model_copy(update={"partitioning": REBALANCE.name})


def _words(given: Scenario, parting: Sequence[Stream], wanted: Mapping[str, int]) -> Iterator[str]:
    """Words on each stream between what comes apart."""
    chains = fused(given.query, given.plan, given.engine)
    for each in parting:
        of_producer, of_consumer = wanted[each.producer], wanted[each.consumer]
        ends = f"{each.producer} has {of_producer} subtask{'s' * (of_producer > 1)} and {each.consumer} {of_consumer}"
        chain = next((group for group in chains if {each.producer, each.consumer} <= {*group}), None)
        what = f"the chain {written(given.query, chain)} comes apart" if chain else "a forward stream becomes rebalance"
        yield f"{what}, as {ends}"


def _cost(after: Scenario, stream: Stream) -> str:
    """What the records of a stream cost that has become channels: those that go to another host are written and read
    there. Their number is that of sources that keep up."""
    job, engine = compile(after), after.engine
    edge = job.edge(next(each for each in after.query.streams if each.key == stream.key))
    per_s = float(job.rates[stream.producer].out_per_s) * edge.share
    starts, ends = (after.plan.locations(name) for name in (stream.producer, stream.consumer))
    away = sum(start.host != end.host for start in starts for end in ends) / (len(starts) * len(ends))
    cores = per_s * away * edge.bytes_each * (engine.serialise_ns_per_byte + engine.deserialise_ns_per_byte) * 1e-9
    told = f"{per_s:,.0f} records/s go through channels then, of which {away:.0%} to another host"
    return told + (f", which takes {cores:.2g} cores" if cores else "")
