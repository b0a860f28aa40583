"""Program for a house with the toy kind: prints what every part of the house makes of it, as JSON."""

from __future__ import annotations

import json
import sys

from models.checkpoint import found_in, refuse_unseen
from models.features import FEATURE_VERSION, LEARNED
from models.job_columns import job_columns
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.job import compile
from twin.profiles import EngineProfile
from twin.query import Query
from twin.rates.model import RateModel
from twin.rates.numa_rates import NumaJob
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.world.world import World

job = parse(Deployment, json.loads(sys.argv[1]))
saved = parse(EngineProfile, json.loads(sys.argv[2]))
spec = job.query.operator("distinct")
settings = RunSettings(horizon_s=60.0, warmup_s=12.0)
streams = tuple(each.model_copy(update={"partitioning": None}) for each in job.query.streams)
evenly = Deployment(**{**dict(job), "query": Query(operators=job.query.operators, streams=streams)})
world = World(compile(job), settings)
world.advance(5.0)
found = {
    "at_sinks": [task.records_in for task in world.tasks["sink"]],
    "simulated_per_s": simulate(Scenario.of(job, settings)).metrics.throughput_per_s,
    "predicted_per_s": float(RateModel(horizon_s=60.0).answer(job, [job.plan]).costs["throughput_per_s"][0]),
    "on_sockets_per_s": NumaJob(evenly).results_per_s,
    "service_s": saved.service_s(job.query, spec),
    "partitioning": str(job.query.partitioning(job.query.inputs("distinct")[0])),
    "saved_again": saved.model_dump(mode="json"),
    "features": FEATURE_VERSION,
    "state_mb": float(job_columns(job).operators["state"][1]),
}
found["seen_as"] = job_columns(job).node_types[1]
try:
    refuse_unseen("model", dict.fromkeys(LEARNED, 1), found_in(job_columns(job)))
except BadInput as error:
    found["learned"] = str(error)
print(json.dumps(found))
