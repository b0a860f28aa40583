"""Layout: the places of the subtasks of every operator under N plans at once, as arrays.

The last axis of every array is the plan, so that a row is contiguous. Letters at the end of a name are its axes: o
operators in data-flow order, s streams by the names of their ends, h hosts, l sockets (all hosts' in a row), n plans,
and c *cells*: subtasks of an operator on one socket that get the same. An operator has as many cells as it uses sockets
under any of the plans, one after the other, or twice as many (see `Layout`); cells that a plan does not need hold no
subtasks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import cached_property

import numpy as np

from twin.plan import ExecutionPlan
from twin.rates import chaining
from twin.rates.arrays import JobArrays
from twin.rates.chaining import Fusing
from twin.rates.channels import LinkLayout
from twin.rates.seats import Seats, alike_cells, uneven_cells, uneven_shares
from twin.rates.sockets import SocketLayout


class Layout:
    """Cells of N plans and what follows from them alone. Build it by `of_plans` or `of_counts`.

    An operator whose subtasks get unequal shares of its input has two cells on each socket, one after the other: of the
    busiest subtasks there, and of the others, which are taken as alike. If only a run's seed decides which subtasks are
    the busiest, these are on any socket with some probability, and each socket's first cell holds its part of them.
    """

    def __init__(
        self,
        job: JobArrays,
        seats: Sequence[Seats],
        owners_n: Mapping[int, Mapping[str, tuple[int, ...]]],
        fusing: Fusing | None,
    ) -> None:
        """Makes the cells. seats: by operator. owners_n: by plan and operator, the subtask of each key group, unless
        they are in contiguous ranges."""
        self.job, self.seats = job, seats
        self.size = len(seats[0].code_n)
        self.fusing = fusing
        uneven = uneven_shares(job, seats, owners_n, fusing)
        groups = [
            alike_cells(each) if o not in uneven else uneven_cells(each, *uneven[o]) for o, each in enumerate(seats)
        ]
        sizes = [len(each.count_kn) for each in groups]
        self.first_c: list[int] = np.cumsum([0, *sizes[:-1]]).tolist()
        self.single = len(job.names) == sum(sizes)
        self.operator_c = np.repeat(np.arange(len(job.names)), sizes)
        self.socket_cn, self.count_cn, self.share_cn, self.emitted_cn, self.busiest_cn = (
            np.ascontiguousarray(np.concatenate(each)) for each in zip(*groups, strict=True)
        )
        self.pair_c = _pair_indices(sizes, uneven) if uneven else None
        """Cell of the busiest subtasks on each cell's socket, and cell of the others there: the cell itself for
        operators whose subtasks are alike; None if those of all operators are. [C] each"""
        self.slow_cn = np.ones(self.count_cn.shape)
        """How many times as long work takes on the host, as its memory is nearly full, or its tasks stop now and then.
        [C, N]"""
        self.capacity_cn = job.places.capacity_l[self.socket_cn]
        """Reference cores that the socket is worth, given that. [C, N]"""
        self.core_cn = job.places.core_l[self.socket_cn]
        """Of these, what one subtask can use. [C, N]"""
        self._place()

    @classmethod
    def of_plans(cls, job: JobArrays, plans: Sequence[ExecutionPlan]) -> Layout:
        """Layout of plans. Raises KeyError if a plan does not fit the deployment."""
        owners_n = {number: plan.key_groups for number, plan in enumerate(plans) if plan.key_groups}
        seats = [Seats.of_plans(job, o, plans) for o in range(len(job.names))]
        return cls(job, seats, owners_n, chaining.of_plans(job, plans))

    @classmethod
    def of_counts(cls, job: JobArrays, counts_pol: np.ndarray) -> Layout:
        """Layout of plans from numbers of subtasks by plan, operator in data-flow order, and socket [P, O, L]; an
        operator's subtasks are in the order of sockets."""
        seats = [Seats.of_counts(job, o, counts_pol[:, o]) for o in range(len(job.names))]
        return cls(job, seats, {}, chaining.of_counts(job, counts_pol))

    def select(self, rows: np.ndarray) -> Layout:
        """Layout of some of the plans (a boolean mask [N])."""
        part = object.__new__(Layout)
        part.job, part.single, part.first_c, part.operator_c = self.job, self.single, self.first_c, self.operator_c
        part.pair_c, part.size = self.pair_c, int(rows.sum())
        part.seats = [each.select(rows) for each in self.seats]
        columns = "socket_cn", "count_cn", "share_cn", "emitted_cn", "busiest_cn", "slow_cn", "capacity_cn", "core_cn"
        for name in columns:
            setattr(part, name, getattr(self, name)[:, rows])
        part.fusing = None if self.fusing is None else self.fusing.select(rows)
        part._place()
        return part

    def slowed(self, slow_hn: np.ndarray) -> Layout:
        """The same plans where work takes so many times as long on each host. slow_hn: the factors [H, N]."""
        found = copy(self)
        found.slow_cn = self.of_hosts(slow_hn)
        found.capacity_cn, found.core_cn = self.capacity_cn / found.slow_cn, self.core_cn / found.slow_cn
        return found

    def _place(self) -> None:
        job, plans = self.job, np.arange(self.size)
        self.subtasks_on = self.over_cells(self.count_cn)
        self.here_cn = np.asarray(self.count_cn > 0)
        self.host_cn = job.places.host_l[self.socket_cn]
        self._at_socket = (self.socket_cn * self.size + plans).ravel()
        self._at_host = (self.host_cn * self.size + plans).ravel()

    @cached_property
    def skew_cn(self) -> np.ndarray | float:
        """Input of a subtask of a cell, over the mean of all subtasks of its operator. [C, N]"""
        if self.pair_c is None:
            return 1.0
        return np.where(self.here_cn, self.share_cn / np.maximum(self.evenly_cn, 1e-300), 1.0)

    @cached_property
    def evenly_cn(self) -> np.ndarray:
        """Share of a cell in its operator's subtasks, and in its state, as key groups are dealt by number. [C, N]"""
        return np.asarray(self.count_cn / self.subtasks_on[self.operator_c])

    @cached_property
    def busiest_on(self) -> np.ndarray:
        """Input of an operator's busiest subtask, over the mean of all. [O, N]"""
        if self.pair_c is None:
            return np.ones_like(self.subtasks_on)
        return self.worst(np.asarray(self.skew_cn))

    @cached_property
    def queues_on(self) -> np.ndarray:
        """Queues of an operator's input: one for each subtask, or one that they share. [O, N]"""
        return np.where(np.array(self.job.dealing.shared_o)[:, None], 1.0, self.subtasks_on)

    @cached_property
    def self_parts(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Parts of a subtask of a cell in the sums over its socket, as cells [C] and its part in each [C, N]: all in
        its own cell, but for subtasks that are the busiest with some probability."""
        if self.pair_c is None:
            return [(np.arange(len(self.count_cn)), np.ones(self.count_cn.shape))]
        return list(zip(self.pair_c, (self.busiest_cn, 1.0 - self.busiest_cn), strict=True))

    def of_operators(self, each_cn: np.ndarray) -> np.ndarray:
        """Sum over the cells of the same operator on the same socket, for every cell. [C, N]"""
        if self.pair_c is None:
            return each_cn
        busiest_c, others_c = self.pair_c
        return np.asarray(each_cn[busiest_c] + each_cn[others_c] * (busiest_c < others_c)[:, None])

    def own_part(self, each_cn: np.ndarray) -> np.ndarray:
        """Part of a subtask of a cell in the sum over all subtasks on its socket, if each has `each_cn`. [C, N]"""
        if self.pair_c is None:
            return each_cn
        return np.asarray(sum(part_cn * each_cn[cell_c] for cell_c, part_cn in self.self_parts))

    # sums and maxima -------------------------------------------------------------------------------------------------

    def over_cells(self, each_cn: np.ndarray) -> np.ndarray:
        """Sum over an operator's cells. [O, N]"""
        return each_cn if self.single else np.add.reduceat(each_cn, self.first_c, axis=0)

    def worst(self, each_cn: np.ndarray) -> np.ndarray:
        """Maximum over an operator's cells. [O, N]"""
        return each_cn if self.single else np.maximum.reduceat(each_cn, self.first_c, axis=0)

    def mean(self, each_cn: np.ndarray) -> np.ndarray:
        """Mean of a value by cell over an operator's input. [O, N]"""
        return self.over_cells(each_cn * self.share_cn)

    def on_sockets(self, each_cn: np.ndarray) -> np.ndarray:
        """Sum over all cells on the same socket, for every cell. [C, N]"""
        total = np.bincount(self._at_socket, each_cn.ravel(), len(self.job.places.capacity_l) * self.size)
        return total[self._at_socket].reshape(self.socket_cn.shape)

    def by_host(self, each_cn: np.ndarray) -> np.ndarray:
        """Sum over all cells on a host. [H, N]"""
        hosts = len(self.job.places.bandwidth_h)
        return np.bincount(self._at_host, each_cn.ravel(), hosts * self.size).reshape(hosts, self.size)

    def of_hosts(self, each_hn: np.ndarray) -> np.ndarray:
        """Value of its host, for every cell. [C, N]"""
        return each_hn.ravel()[self._at_host].reshape(self.host_cn.shape)

    def tasks(self, each_on: np.ndarray) -> np.ndarray:
        """Sum over all operators that are one task with an operator, itself included. [O, N]"""
        return each_on if self.fusing is None else self.fusing.spread(self.fusing.gathered(each_on))

    # streams ---------------------------------------------------------------------------------------------------------

    def cells(self, operator: int) -> slice:
        """Cells of an operator."""
        last = operator + 1 == len(self.first_c)
        return slice(self.first_c[operator], len(self.operator_c) if last else self.first_c[operator + 1])

    @cached_property
    def leaving(self) -> list[np.ndarray]:
        """Share of a stream's records that leave the host, by stream and cell of its producer. [S] of [cells, N]"""
        found = []
        for s, (start, end) in enumerate(zip(self.job.producer_s, self.job.consumer_s, strict=True)):
            out, into = self.cells(start), self.cells(end)
            if self.job.dealing.forward_s[s]:
                hosts = np.arange(len(self.job.places.bandwidth_h))
                stays_nh = self.partners_np((start, end), self.job.places.host_l, (hosts, hosts))
                stays = stays_nh[np.arange(self.size), self.host_cn[out]]
            else:
                same = self.host_cn[out, None] == self.host_cn[None, into]
                stays = (same * self.share_cn[None, into]).sum(axis=1)
                stays = np.where(stays > 0.0, 1.0, 0.0) if self.job.hows[s].near else stays
            found.append(self.emitted_cn[out] * np.maximum(1.0 - stays, 0.0))
        if self.fusing is None:
            return found
        return [each * ~inner for each, inner in zip(found, self.fusing.inner_sn, strict=True)]

    def partners_np(
        self, ends: tuple[int, int], place_l: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """Share of the subtasks of the first of two operators on one place of a pair [P] whose partner, the second's of
        the same number, is on the other; 0 where none is on the first. place_l: place of each socket. [N, P]"""
        first_nr, second_nr = (self.seats[o].sockets_nr() for o in ends)
        found_np, there_np = np.zeros((2, self.size, len(pairs[0])))
        for first_n, second_n in zip(first_nr.T, second_nr.T, strict=False):
            here_np, with_np = (
                (place_l[each_n][:, None] == each_p) & (each_n >= 0)[:, None]
                for each_n, each_p in zip((first_n, second_n), pairs, strict=True)
            )
            there_np += here_np
            found_np += here_np & with_np
        return np.divide(found_np, there_np, out=found_np, where=there_np > 0.0)

    def straight(self, s: int) -> np.ndarray | bool:
        """Whether each subtask of a stream's producer sends to the consumer's of the same number alone. [N]"""
        forward = self.job.dealing.forward_s[s]
        return forward if self.fusing is None else self.fusing.inner_sn[s] | forward

    @cached_property
    def remote_sn(self) -> np.ndarray:
        """Share of a stream's records that leave their host. [S, N]"""
        return np.stack([each.sum(axis=0) for each in self.leaving])

    @cached_property
    def counted(self) -> dict[str, np.ndarray]:
        """Numbers of subtasks of the operators whose flow depends on them (`JobArrays.subtasks_count`), if there are
        several under any plan. By name, [N]"""
        found = {self.job.names[o]: self.subtasks_on[o] for o in self.job.subtasks_count}
        return {name: parallelism for name, parallelism in found.items() if (parallelism > 1.0).any()}

    @cached_property
    def latency_sn(self) -> np.ndarray:
        """Mean network latency of a stream's records, 0 for those that stay on their host. [S, N]"""
        if self.links is not None:
            return self.links.latency_sn
        return self._mean_of_hosts(self.job.places.latency_h)

    @cached_property
    def send_sn(self) -> np.ndarray:
        """Mean time that a record of a stream takes on the network card, 0 for those that stay. [S, N]"""
        return self._mean_of_hosts(1.0 / self.job.places.bandwidth_h) * self.job.costs.bytes_s[:, None]

    def _mean_of_hosts(self, each_h: np.ndarray) -> np.ndarray:
        ends = zip(self.leaving, self.job.producer_s, strict=True)
        return np.stack([(share * each_h[self.host_cn[self.cells(o)]]).sum(axis=0) for share, o in ends])

    @cached_property
    def copies_sn(self) -> np.ndarray:
        """Number of consumer subtasks that get each record of a stream: 1, or all for a broadcast. [S, 1 or N]"""
        if not any(self.job.dealing.broadcast_s):
            return np.ones((len(self.job.streams), 1))
        several = np.array(self.job.dealing.broadcast_s)[:, None]
        return np.where(several, self.subtasks_on[self.job.consumer_s], 1.0)

    @cached_property
    def room_sn(self) -> np.ndarray:
        """Records that the channels of a stream into one subtask of its consumer hold if all channels are full; 0
        within a chain. [S, N], or [S, 1] where the plan does not matter."""
        job, engine = self.job, self.job.deployment.engine
        if engine.network_memory is None:
            found = np.full((len(job.streams), 1), float(engine.channel_records or 1))
        else:
            sizes_s1 = job.costs.buffer_s[:, None], job.costs.spans_s[:, None]
            senders_sn = self._senders_sn, self._channels_sn, self.remote_sn
            held = engine.network_memory.held(*senders_sn, *sizes_s1, self._far_senders_sn)
            found = np.asarray(held)
        return found if self.fusing is None else found * ~self.fusing.inner_sn

    @cached_property
    def first_room_sn(self) -> np.ndarray:
        """Records that the channels of a stream into one subtask of its consumer hold when the first of them is full,
        if all of them fill alike. [S, N], or [S, 1] as `room_sn`

        Each producer subtask has buffers of its own. The busiest is held back first, and one on the consumer's host,
        which has no buffers at a gate, before those on other hosts.
        """
        job, memory = self.job, self.job.deployment.engine.network_memory
        if memory is None:
            return self.room_sn
        far_sn = self._channels_sn * self.remote_sn
        apart_sn = (far_sn > 0.0) & (self.remote_sn < 1.0) & (np.minimum(far_sn, self._channels_sn - far_sn) < 1.0)
        sizes_s1 = job.costs.buffer_s[:, None], job.costs.spans_s[:, None]
        near_sn = memory.held(self._senders_sn, self._channels_sn, 0.0, *sizes_s1)
        return np.where(apart_sn, near_sn, self.room_sn) / self.busiest_on[job.producer_s]

    def debloated_sn(self, room_sn: np.ndarray, per_s_sn: np.ndarray) -> np.ndarray:
        """Part of that room that the channels into one subtask use, if it takes so many records a second. [S, N]"""
        engine = self.job.deployment.engine
        law = None if engine.network_memory is None else engine.network_memory.buffer_debloat
        if law is None:
            return room_sn
        least_s1 = law.least(engine.buffer_bytes, self.job.costs.buffer_s[:, None])
        return np.asarray(law.held(room_sn, least_s1, per_s_sn))

    @cached_property
    def window_sn(self) -> np.ndarray:
        """Most records of a stream on the network to one subtask of its consumer. [S, N], or [S, 1] as `room_sn`"""
        memory = self.job.deployment.engine.network_memory
        if memory is None:
            return self.room_sn
        costs = self.job.costs
        buffers_sn = memory.gate(self._senders_sn * self.remote_sn, costs.spans_s[:, None])
        return np.asarray(buffers_sn * costs.buffer_s[:, None])

    @cached_property
    def _channels_sn(self) -> np.ndarray:
        """Channels of a producer subtask on a stream. [S, N]"""
        job = self.job
        one_s = [job.dealing.forward_s[s] or job.dealing.shared_o[o] for s, o in enumerate(job.consumer_s)]
        ways = [
            self.ways(s) if how.near or how.pointwise else self.subtasks_on[job.consumer_s[s]]
            for s, how in enumerate(job.hows)
        ]
        return np.stack([np.ones(self.size) if one else way for one, way in zip(one_s, ways, strict=True)])

    @cached_property
    def _senders_sn(self) -> np.ndarray:
        """Subtasks that send to one subtask of the consumer, or to the queue that its subtasks share. [S, N]"""
        receivers_sn = self.queues_on[self.job.consumer_s]
        return np.asarray(self.subtasks_on[self.job.producer_s] * self._channels_sn / receivers_sn)

    @cached_property
    def _far_senders_sn(self) -> np.ndarray:
        """Subtasks on other hosts that send to one that any send to from there: a mean over such channels. [S, N]"""
        found = self._senders_sn * self.remote_sn
        for s in np.flatnonzero(((self.remote_sn > 0.0) & (self.remote_sn < 1.0)).any(axis=1)).tolist():
            producer, consumer = self.job.producer_s[s], self.job.consumer_s[s]
            far_hn = 1.0 - self.at_hosts(producer) / self.subtasks_on[producer]
            channels_hn = self.at_hosts(consumer) * far_hn
            mean = (channels_hn * far_hn).sum(axis=0) / np.maximum(channels_hn.sum(axis=0), 1e-12)
            found[s] = np.where(self.remote_sn[s] < 1.0, self._senders_sn[s] * mean, found[s])
        return found

    def ways(self, s: int) -> np.ndarray | float:
        """Number of consumer subtasks to which a producer subtask's output on a stream is dealt. [N]"""
        producer, consumer = self.job.producer_s[s], self.job.consumer_s[s]
        if self.job.hows[s].near:
            near_hn = self.at_hosts(consumer)
            near_hn = np.where(near_hn > 0.0, near_hn, self.subtasks_on[consumer])
            return np.asarray((self.at_hosts(producer) * near_hn).sum(axis=0) / self.subtasks_on[producer])
        if self.job.hows[s].pointwise:
            return np.asarray(np.maximum(self.subtasks_on[consumer] / self.subtasks_on[producer], 1.0))
        return 1.0 if self.job.dealing.to_one_s[s] else self.subtasks_on[consumer]

    def carried_sn(self, out_on: np.ndarray) -> np.ndarray:
        """Records a second on all streams, from what operators emit, with the copies of broadcasts. [S, 1 or N]"""
        sent_sn = self.job.sent_sn(out_on)
        return sent_sn * self.copies_sn if any(self.job.dealing.broadcast_s) else sent_sn

    @cached_property
    def neighbours(self) -> np.ndarray:
        """Subtasks of cell d if it is on the socket of cell c, else 0. [C, D, N]"""
        same = self.socket_cn[:, None] == self.socket_cn[None, :]
        return same * self.count_cn[None, :]

    @cached_property
    def links(self) -> LinkLayout | None:
        """Links of the network; None if the cluster has none."""
        return LinkLayout(self) if self.job.deployment.cluster.links else None

    @cached_property
    def sockets(self) -> SocketLayout | None:
        """Distances, bandwidths and clocks of sockets; None if no host has any."""
        return None if self.job.places.alike else SocketLayout(self)

    def at_hosts(self, operator: int) -> np.ndarray:
        """Subtasks of an operator on each host. [H, N]"""
        return self._at_hosts_nh(operator, self.count_cn).T

    def taken_nh(self, operator: int) -> np.ndarray:
        """Share of an operator's input that comes to each host. [N, H]"""
        return self._at_hosts_nh(operator, self.share_cn)

    def emitted_nh(self, operator: int) -> np.ndarray:
        """Share of an operator's output that comes from each host. [N, H]"""
        return self._at_hosts_nh(operator, self.emitted_cn)

    def _at_hosts_nh(self, operator: int, each_cn: np.ndarray) -> np.ndarray:
        found = np.zeros((self.size, len(self.job.places.bandwidth_h)))
        for cell in range(*self.cells(operator).indices(len(self.operator_c))):
            found[np.arange(self.size), self.host_cn[cell]] += each_cn[cell]
        return found


def _pair_indices(sizes: Sequence[int], uneven: Collection[int]) -> tuple[np.ndarray, np.ndarray]:
    """Indices for `Layout.pair_c`. sizes: number of cells by operator."""
    place_c = np.concatenate([np.arange(size) for size in sizes])
    paired_c = np.repeat([o in uneven for o in range(len(sizes))], sizes)
    busiest_c = np.arange(len(place_c)) - np.where(paired_c, place_c % 2, 0)
    return busiest_c, busiest_c + paired_c
