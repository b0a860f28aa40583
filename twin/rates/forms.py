"""What a compute and the consolidates behind it cost in each form, from a job: the numbers of the cost model.

Enorm, Section 5.1.1, as `twin.event_windows.forms` has it: a state a pane or a window, one component or two.
"""

from __future__ import annotations

from twin.event_time import merged_windows, partial_panes
from twin.event_windows.forms import Period, UnitCosts, period_of
from twin.job import Job


def period_of_job(job: Job, name: str, tuples_per_s: float, migrations: float = 0.0) -> Period:
    """What happens at a compute in as long as the longest window, at that rate. migrations: of key groups in it."""
    operator = job.query.operator(name)
    windows, panes = merged_windows(job.query, name), partial_panes(job.query, name)
    keys, groups = getattr(operator, "keys", 1), getattr(operator, "key_groups", 1)
    return period_of(windows, panes, tuples_per_s, keys, groups, migrations)


def unit_costs(job: Job, name: str, period: Period) -> UnitCosts:
    """Of a compute's logic; of sending a result to another host and merging it there; and how long a key group of one
    component would pause, for its state to cross the slowest network card."""
    engine, operator = job.engine, job.query.operator(name)
    byte_s = (engine.serialise_ns_per_byte + engine.deserialise_ns_per_byte) * 1e-9
    behind = [job.component(stream.consumer) for stream in job.query.outputs(name)]
    received_s = sum(each.service_s for each in behind) / len(behind)
    made_s = engine.result_us * 1e-6 if operator.service_time_s is None else 0.0
    wire_s = 8e-6 / min(host.bandwidth_mbps for host in job.deployment.cluster.hosts)
    state_bytes = (period.panes + 1) * period.pane_keys / period.groups * getattr(operator, "state_bytes_per_key", 0.0)
    return UnitCosts(
        execute_s=getattr(operator, "execute_time_s", 0.0),
        ship_s=engine.output_bytes(job.query, name) * byte_s + received_s + made_s,
        merge_s=max(getattr(each.operator, "merge_time_s", 0.0) for each in behind),
        pause_s=state_bytes * (byte_s + wire_s),
    )
