"""Controls of the page, sliders and fields: values of a job that can be changed, with their ranges and options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from optimizers.policies.registry import POLICIES
from scenarios.questions.knobs import ReplicasKnob
from streamtwin.serve.inquiry import SET, Alteration, Inquiry, flow
from twin.errors import BadInput, suggest
from twin.flink_keys import default_key_groups
from twin.keys import group_count
from twin.profiles import PROFILES
from twin.quantities import number
from twin.scenario import Scenario
from twin.workload import ArrivalLaw

WIDE = 10.0
"""Factor on the given value, up and down, to which a slider reaches."""
MOST_REPLICAS = 16
MOST_SKEW = 2.0


class Control(NamedTuple):
    """Control of one value of a job. value: present. given: in the scenario's file. low, high: ends of its slider;
    without, it is a field. choices: its possible values, if few. text: makes the option's text from a written value.
    first: an option that has to come before it.
    """

    group: str
    name: str
    label: str
    value: Any
    given: Any
    text: Callable[[str], str]
    unit: str = ""
    low: float | None = None
    high: float | None = None
    log: bool = False
    whole: bool = False
    choices: tuple[str, ...] = ()
    first: str = ""


def controls(given: Scenario, now: Scenario) -> dict[str, Control]:
    """All controls of a job, by name. given: the job of the file. now: with the changes."""
    listed = (*_rates(given, now), *_replicas(given, now), *_hosts(given, now), *_keys(given, now), *_run(given, now))
    return {each.name: each for each in listed}


def turned(given: Scenario, inquiry: Inquiry, name: str, value: str, stroke: str = "") -> list[Alteration]:
    """Changes that a control makes: one, and another that has to come before it, if any. value: as written.

    Raises BadInput for an unknown control, or a value that it does not take.
    """
    marked = stroke and f"{name} {stroke}"
    known = controls(given, inquiry.scenario(inquiry.before_stroke(marked)))
    if name not in known:
        raise BadInput(f"{name}: no such control; {suggest(name, known)}")
    before = [Alteration(SET, known[name].first)] if known[name].first else []
    return [*before, Alteration(SET, known[name].text(value.strip()), marked)]


def _at(path: str) -> Callable[[str], str]:
    """Function that makes the option's text of a control of one value at a path, which is read as by `--set`."""
    return lambda value: f"{path}={value}"


def _slider(group: str, name: str, label: str, path: str, value: float, given: float, unit: str) -> Control:
    ends = (given / WIDE, given * WIDE) if given else (0.0, WIDE)
    return Control(group, name, label, value, given, _at(path), unit, *ends, log=given > 0)


def _rates(given: Scenario, now: Scenario) -> Iterator[Control]:
    laws, first = now.workload.arrivals, given.workload.arrivals
    whole = sum(law.mean_rate_per_s for law in first.values())
    factor = sum(law.mean_rate_per_s for law in laws.values()) / whole

    def load(value: str) -> str:
        scaled = {name: law.scaled(_above_zero(value, "load")) for name, law in first.items()}
        return f"workload.arrivals={flow({name: _law(law) for name, law in scaled.items()})}"

    yield Control("Rates", "load", "all sources", factor, 1.0, load, "times", 1 / WIDE, WIDE, True)
    yield from (_rate(name, first[name], law) for name, law in laws.items())


def _rate(name: str, first: ArrivalLaw, law: ArrivalLaw) -> Control:
    """Control of a source's rate: sets the rate of a law that has one, or scales all rates of another law."""
    path, mean, given = f"workload.arrivals.{name}", law.mean_rate_per_s, first.mean_rate_per_s
    if _plain(law):
        return _slider("Rates", f"rate {name}", name, f"{path}.rate_per_s", mean, given, "/s")

    def scaled(value: str) -> str:
        return f"{path}={flow(_law(first.scaled(_above_zero(value, name) / given)))}"

    return Control("Rates", f"rate {name}", name, mean, given, scaled, "/s", given / WIDE, given * WIDE, True)


def _plain(law: ArrivalLaw) -> bool:
    return hasattr(law, "rate_per_s")


def _law(law: Any) -> Mapping[str, Any]:
    kept: Mapping[str, Any] = law.model_dump(mode="json", exclude_defaults=True)
    return {"law": law.law, **kept}


def _replicas(given: Scenario, now: Scenario) -> Iterator[Control]:
    for operator in now.query.topological:
        name, first = operator.name, given.plan.replicas(operator.name)
        if operator.pinned:
            continue

        def dealt(value: str, name: str = name) -> str:
            count = _number(value, f"replicas of {name}")
            turned = ReplicasKnob(name, SET).turned(now, int(count) if count.is_integer() else count)
            return plan_option(now, turned)

        high = float(max(MOST_REPLICAS, 2 * first))
        label, count = f"{name}", now.plan.replicas(name)
        yield Control("Replicas", f"replicas {name}", label, count, first, dealt, "", 1, high, whole=True)


def plan_option(before: Scenario, after: Scenario) -> str:
    """Option's text that turns the plan of one scenario into that of another: of one operator, if only that differs."""
    old, new = before.plan, after.plan
    differ = [name for name in new.placement if new.placement[name] != old.placement[name]]
    written = new.model_dump(mode="json")
    if new.key_groups != old.key_groups or new.fused != old.fused:
        return f"plan={flow(written)}"
    if len(differ) == 1:
        return f"plan.placement.{differ[0]}={flow(written['placement'][differ[0]])}"
    return f"plan.placement={flow(written['placement'])}"


def _hosts(given: Scenario, now: Scenario) -> Iterator[Control]:
    first = {host.name: host for host in given.cluster.hosts}
    shared = () if now.cluster.links else (("Latency", "latency", "latency_ms", "ms"),)
    for group, name, key, unit in (("Cores", "cpu", "cpu_percent", "% core"), *shared):
        for host in now.cluster.hosts:
            if (was := first.get(host.name)) is not None:
                values, path = (getattr(host, key), getattr(was, key)), f"cluster.hosts.{host.name}.{key}"
                yield _slider(group, f"{name} {host.name}", host.name, path, *values, unit)
    for number_, link in enumerate(now.cluster.links):
        was_ms = given.cluster.links[number_].latency_ms if number_ < len(given.cluster.links) else link.latency_ms
        label = " - ".join(link.between)
        path = f"cluster.links.{number_}.latency_ms"
        yield _slider("Latency", f"latency {label}", label, path, link.latency_ms, was_ms, "ms")


def _keys(given: Scenario, now: Scenario) -> Iterator[Control]:
    follows = {each.consumer for each in now.query.streams if each.alignment and each.alignment.share == 1.0}
    for operator in now.query.topological:
        name = operator.name
        if name in follows:  # its keys are those of its producer
            continue
        skew, first = now.workload.keys.get(name), given.workload.keys.get(name)
        groups = group_count(now.query, name, now.plan.replicas(name))
        splits = operator.keyed and "key_groups" in type(operator).model_fields
        if (groups is None and not splits) or (skew is not None and skew.shares):
            continue

        def skewed(value: str, name: str = name) -> str:
            if name in now.workload.keys:
                return f"workload.keys.{name}.zipf={value}"
            others = {
                key: each.model_dump(mode="json", exclude_defaults=True) for key, each in now.workload.keys.items()
            }
            return f"workload.keys={flow({**others, name: {'zipf': _number(value, f'skew of {name}')}})}"

        values = (skew.zipf if skew else 0.0, first.zipf if first else 0.0)
        count = default_key_groups(now.plan.replicas(name))
        before = f"query.operators.{name}.key_groups={count}" if groups is None else ""
        control = Control("Skew of keys", f"skew {name}", name, *values, skewed, "Zipf", 0.0, MOST_SKEW)
        yield control._replace(first=before)


def _run(given: Scenario, now: Scenario) -> Iterator[Control]:
    profiles = tuple(PROFILES) if now.engine.name in PROFILES else (now.engine.name, *PROFILES)
    yield Control(
        "Engine and run",
        "engine",
        "engine profile",
        now.engine.name,
        given.engine.name,
        _at("engine"),
        choices=profiles,
    )
    policy, first = (each.policy.name if each.policy else "none" for each in (now, given))

    def governed(value: str) -> str:
        return f"policy={'null' if value == 'none' else value}"

    yield Control("Engine and run", "policy", "policy", policy, first, governed, choices=("none", *POLICIES))
    for key, label in (("horizon_s", "simulated time"), ("warmup_s", "warm-up"), ("seed", "seed")):
        unit = "s" if key.endswith("_s") else ""
        values = (getattr(now.run, key), getattr(given.run, key))
        yield Control("Engine and run", key, label, *values, _at(f"run.{key}"), unit)


def _number(value: str, what: str) -> float:
    try:
        return number(value)
    except ValueError as error:
        raise BadInput(f"{what}: {error}; write a number") from None


def _above_zero(value: str, what: str) -> float:
    found = _number(value, what)
    if not found > 0.0:
        raise BadInput(f"{what}: {value} is not above 0; write a number such as 1.5")
    return found
