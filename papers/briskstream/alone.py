"""One operator that is always busy, at some distance from its input: how long it takes for a tuple."""

from __future__ import annotations

import numpy as np

from papers.briskstream.applications import Case
from papers.workspace import Workspace
from twin.deployment import Deployment
from twin.numa import SERVER
from twin.plan import ExecutionPlan
from twin.query import Query, Sink, Source, Stream
from twin.rates.numa_job import NumaJob
from twin.rates.numa_rates import times
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.workload import Constant, Workload

OFFERED = 2.0
"""Times what the operator could take from the same socket."""
RESULTS = "results"


def alone(job: Deployment, operator: str, socket: int) -> Deployment:
    """The operator on a socket between a source on socket 0 and a sink beside it, which cost nothing."""
    query, engine, spec = job.query, job.engine, job.query.operator(operator)
    before = query.inputs(operator)[0].producer
    size = engine.output_bytes(query, before)
    source = Source(name=before, columns=query.columns_out[before], tuple_bytes=size, service_time_s=0.0)
    after = () if spec.is_sink else (Sink(name=RESULTS, service_time_s=0.0),)
    streams = [Stream(producer=before, consumer=operator)]
    streams += [Stream(producer=operator, consumer=each.name) for each in after]
    places = {each.name: (f"{SERVER}/{socket}",) for each in (spec, *after)}
    return Deployment(
        query=Query(operators=(source, spec, *after), streams=tuple(streams)),
        cluster=job.cluster,
        plan=ExecutionPlan(placement={before: (f"{SERVER}/0",), **places}),
        workload=Workload(arrivals={before: Constant(rate_per_s=OFFERED / engine.service_s(query, spec))}),
        engine=engine,
    )


def simulated_ns(workspace: Workspace, case: Case, operator: str, socket: int) -> float:
    """Between two tuples of it; kept in the workspace."""
    settings = case.settings.model_copy(update={"seed": workspace.seed})

    def measure() -> float:
        found = simulate(Scenario.of(alone(case.job, operator, socket), settings)).operators
        return 1e9 / next(each.rate_in_per_s for each in found if each.operator == operator)

    return float(workspace.cached("briskstream-times", {"operator": operator, "socket": socket, **case.key}, measure))


def modelled_ns(case: Case, operator: str, socket: int) -> float:
    """T of equation 2 at the socket's clock, if all before it is on socket 0."""
    model = NumaJob(case.job)
    row = model.operators.index(operator)
    share_nol = np.zeros((1, len(model.operators), len(model.locations)))
    share_nol[:, :, 0] = 1.0
    return float(times(model, share_nol)[0, row, socket] / model.speed_l[socket]) * 1e9
