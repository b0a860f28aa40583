"""Cases of the comparison as networks of Ciw 3.2, with answers computed from its records of all visits."""

from __future__ import annotations

from importlib.util import find_spec

from benchmarks.peers import cases


def installed() -> bool:
    """Whether the optional group `peers` is installed."""
    return find_spec("ciw") is not None


def run(case: str, customers: int, seed: int) -> float:
    """Answer of a case, computed with Ciw."""
    import ciw  # type: ignore[import-not-found]

    def exponential(rate: float) -> object:
        return ciw.dists.Exponential(rate=rate)

    if case == "loss":
        network = ciw.create_network(
            arrival_distributions=[exponential(cases.LOSS_RATE)],
            service_distributions=[exponential(1.0)],
            number_of_servers=[cases.LOSS_SERVERS],
            queue_capacities=[cases.LOSS_PLACES - cases.LOSS_SERVERS],
        )
    elif case == "tandem":
        first, second = cases.TANDEM_SERVICES_S
        network = ciw.create_network(
            arrival_distributions=[exponential(cases.TANDEM_RATE), None],
            service_distributions=[exponential(1 / first), exponential(1 / second)],
            routing=[[0.0, 1.0], [0.0, 0.0]],
            number_of_servers=[1, 1],
            queue_capacities=[float("inf"), cases.TANDEM_PLACES],
        )
    else:
        network = ciw.create_network(
            arrival_distributions=[exponential(cases.PIPELINE_RATE)],
            service_distributions=[exponential(1 / cases.PIPELINE_SERVICE_S)],
            number_of_servers=[1],
            queue_capacities=[cases.PIPELINE_PLACES],
        )
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(customers / cases.CASES[case].rate)
    records = [each for each in simulation.get_all_records() if each.record_type == "service"]
    if case == "loss":
        return float(sum(each.waiting_time for each in records) / len(records))
    came = {each.id_number: each.arrival_date for each in records if each.node == 1}
    last = 2 if case == "tandem" else 1
    done = [each.exit_date - came[each.id_number] for each in records if each.node == last]
    return float(sum(done) / len(done)) * (1e6 if case == "pipeline" else 1.0)
