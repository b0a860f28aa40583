"""Rates within a Flink job: of each stream between vertices, and of the operators within one.

A vertex counts what it takes and what it sends, over all of its streams. Where it has several, sums on both sides tell
most of them apart. Operators of a chain have counters of their own (`Step.counts`), which tell the rest. Of two
consumers in a chain the producer counts each record twice, so what an operator sends is what the next one takes. Of a
broadcast stream the producer counts each record once, and each subtask of the consumer counts it again; rates are the
producer's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from streamtwin.connect.importers.flink_chain import INTO, OUT_OF, Step
from streamtwin.connect.importers.flink_job import Vertex

ONE_FOR_ONE = 0.01
"""Distance to 1 below which a ratio of output to input counts as 1: counters are read at different moments."""
Link = tuple[str, int]
"""Stream between vertices: the id of its consumer, and the number of its input."""


@dataclass(frozen=True, slots=True)
class Part:
    """Operator of the twin within a vertex. step: the number of Flink's operator. before: the part that it follows.
    sent_per_s: what it sends to each consumer; None: unknown."""

    step: int
    before: int | None
    sent_per_s: float | None
    is_sink: bool = False


@dataclass(frozen=True, slots=True)
class Flow:
    """Flow through a job. parts: of each vertex, the first one first. exits: by stream, the part that sends it.
    rates: by stream, records a second. guessed: vertices whose streams no counter tells apart. unplaced: vertices of
    which no counter tells which operator of the chain sends which stream."""

    parts: Mapping[str, tuple[Part, ...]]
    exits: Mapping[Link, int]
    rates: Mapping[Link, float]
    guessed: tuple[str, ...]
    unplaced: tuple[str, ...]


def flow_of(vertices: Sequence[Vertex]) -> Flow:
    """Flow through a job with these vertices."""
    producer = {(each.id, number): made[0] for each in vertices for number, made in enumerate(each.inputs)}
    outputs = {each.id: [link for link, made in producer.items() if made == each.id] for each in vertices}
    rates = _solved(vertices, producer, outputs)
    placed = {each.id: _exits(each, outputs[each.id], vertices, rates) for each in vertices}
    ends = {id_: found for id_, (found, _) in placed.items()}
    for vertex in vertices:
        for link in outputs[vertex.id]:
            counted = vertex.chain[ends[vertex.id][link]].counts.get(OUT_OF)
            alone = sum(end == ends[vertex.id][link] for end in ends[vertex.id].values()) == 1
            if link not in rates and counted is not None and alone:
                rates[link] = counted
    guessed = []
    for vertex in vertices:
        unknown = [link for link in outputs[vertex.id] if link not in rates]
        left = vertex.out_per_s - sum(rates[link] for link in outputs[vertex.id] if link in rates)
        if unknown:
            guessed.append(vertex.id)
            rates |= dict.fromkeys(unknown, max(0.0, left) / len(unknown))
    parts, exits = dict[str, tuple[Part, ...]](), dict[Link, int]()
    for vertex in vertices:
        own = {link: rates[link] for link in outputs[vertex.id]}
        parts[vertex.id], ends_in = _parts(vertex.chain, ends[vertex.id], own)
        exits |= ends_in
    return Flow(parts, exits, rates, tuple(guessed), tuple(id_ for id_, (_, told) in placed.items() if not told))


def _solved(
    vertices: Sequence[Vertex], producer: Mapping[Link, str], outputs: Mapping[str, Sequence[Link]]
) -> dict[Link, float]:
    """Rates of streams that the counters of vertices tell: all streams but one of a vertex are known, again and again.

    Where a vertex has one output, it is what the vertex says that it sends.
    """
    copies = {
        (each.id, number): each.parallelism
        for each in vertices
        for number, (_, how) in enumerate(each.inputs)
        if how == "BROADCAST"
    }
    sent = [(dict.fromkeys(outputs[each.id], 1), each.out_per_s) for each in vertices]
    sums = [(links, total) for links, total in sent if len(links) == 1]
    sums += [
        ({link: copies.get(link, 1) for link in producer if link[0] == each.id}, each.in_per_s) for each in vertices
    ]
    sums += sent
    found = dict[Link, float]()
    more = True
    while more:
        more = False
        for links, total in sums:
            unknown = [link for link in links if link not in found]
            if len(unknown) == 1:
                left = total - sum(found[link] * times for link, times in links.items() if link in found)
                found[unknown[0]] = max(0.0, left) / links[unknown[0]]
                more = True
                break
    return found


def _exits(
    vertex: Vertex, links: Sequence[Link], vertices: Sequence[Vertex], rates: Mapping[Link, float]
) -> tuple[dict[Link, int], bool]:
    """Operator of a vertex that sends each of its streams, and whether that is told: Flink does not say. A local phase
    sends to its global one. Of the others each is sent by the operator that sends as much, if counters tell; else they
    are taken in their order, the ends of the chain first. rates: of streams, those that are known."""
    chain = vertex.chain
    followed = {each.before for each in chain}
    ends = [number for number, each in enumerate(chain) if number not in followed and not each.is_sink]
    heads = {each.id: each.chain[0].word for each in vertices}
    found = dict[Link, int]()
    for link in links:
        phase = heads[link[0]].replace("Global", "Local", 1)
        if phase.startswith("Local") and (match := next((end for end in ends if chain[end].word == phase), None)):
            found[link] = match
            ends.remove(match)
    rest = [link for link in links if link not in found]
    more = max(0, len(rest) - len(ends))
    last = max(found.values(), default=len(chain) - 1)
    inner = chain[last].before
    places = [*(ends if len(links) > 1 else ends[-1:]), *[last if inner is None else inner] * more][: len(rest)]
    within = [each for each in range(len(chain)) if each in followed and not chain[each].is_sink]
    could = [*ends, *(within or places) * more]
    in_order = found | dict(zip(rest, places, strict=True))
    if not rest or len({_rate_made_at(chain, each) for each in could}) == 1:
        return in_order, True
    sent = _each_sends(chain, could, Counter(in_order.values()))
    known = [rates[link] for link in rest if link in rates]
    if len(sent) < len(could) or len(known) < len(rest):
        return in_order, False
    from scipy.optimize import linear_sum_assignment  # takes longer to import than most commands take to start

    apart = np.abs(np.subtract.outer(known, sent))
    rows, columns = linear_sum_assignment(apart)
    alike = np.abs(np.subtract.outer(sent, sent))[columns] <= ONE_FOR_ONE * max(sent)
    told = bool((np.where(alike, np.inf, apart).min(axis=1) > apart[rows, columns]).all())
    return found | {link: could[column] for link, column in zip(rest, columns, strict=True)}, told


def _rate_made_at(chain: Sequence[Step], number: int) -> int:
    """Operator of a chain from which on the rate is that of one behind it: those between let all records pass."""
    before = chain[number].before
    return _rate_made_at(chain, before) if before is not None and chain[number].passes_all else number


def _each_sends(chain: Sequence[Step], places: Sequence[int], streams: Mapping[int, int]) -> list[float]:
    """What those operators of a chain that are counted send to each that follows. streams: that each sends to other
    vertices, by its number."""
    found = list[float]()
    for place in places:
        after = [each for each in chain if each.before == place]
        taken = [each.counts[INTO] for each in after if INTO in each.counts]
        if not taken and OUT_OF in chain[place].counts:
            taken = [chain[place].counts[OUT_OF] / max(1, len(after) + streams[place])]
        found += taken[:1]
    return found


def _parts(
    chain: Sequence[Step], ends: Mapping[Link, int], rates: Mapping[Link, float]
) -> tuple[tuple[Part, ...], dict[Link, int]]:
    """Operators of the twin for a chain: the first one, those that change a rate, and sinks; and the part of each
    stream."""
    sent = dict[int, float]()
    for link, end in ends.items():
        sent[end] = max(sent.get(end, 0.0), rates[link])
    for step in chain:
        if step.before is not None and INTO in step.counts:
            sent[step.before] = max(sent.get(step.before, 0.0), step.counts[INTO])
    if 0 not in sent and (OUT_OF in chain[0].counts and len(chain) == 1):
        sent[0] = chain[0].counts[OUT_OF]
    if 0 not in sent and ends:
        sent[0] = max(sent.values())
    parts = [Part(0, None, sent.get(0))]
    part_of = {0: 0}
    for number, step in enumerate(chain[1:], start=1):
        before = part_of[step.before or 0]
        now, then = sent.get(number), parts[before].sent_per_s
        part_of[number] = before
        if parts[before].is_sink:  # a committer behind its writer
            continue
        if step.is_sink:
            parts.append(Part(number, before, None, is_sink=True))
        elif now is not None and then and not step.passes_all and abs(now / then - 1.0) > ONE_FOR_ONE:
            part_of[number] = len(parts)
            parts.append(Part(number, before, now))
    return tuple(parts), {link: part_of[end] for link, end in ends.items()}
