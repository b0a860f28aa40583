"""Keys where Flink puts them: published hashes, outputs of Flink 2.3, conservation, and runs of hot keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.worlds import chain, simulated, world_of
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.key_skew import KeySkew, default_key_groups, java_class, java_hashes, key_groups_of_keys, murmur
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.spec import parse
from twin.workload import contiguous

WORDS = ("to", "be", "or", "not", "that", "is", "the", "question")


def keyed(skew: dict[str, Any], rate: float = 1000, parallelism: int = 3, **operator: Any) -> Deployment:
    """Job source -> keyed map -> sink."""
    middle = {"kind": "map", "name": "m", "key_groups": 128, "service_time_s": 1e-3} | operator
    return chain([middle], rate, placement={"m": {"h": parallelism}}, keys={"m": skew})


def test_the_mixing_is_murmurhash3_without_its_sign() -> None:
    """The mixing is MurmurHash3 as published, of four bytes with seed 0; Flink takes the absolute value."""
    published = {0x00000000: 0x2362F9DE, 0xFFFFFFFF: 0x76293B50, 0x87654321: 0xF55B516B, 0x74736574: 0xBA6BD213}
    found = murmur(np.array(list(published), dtype=np.uint32)).tolist()
    assert found == [value if value < 2**31 else 2**32 - value for value in published.values()]


@pytest.mark.parametrize(
    ("keys", "hashes", "by_128", "by_720"),
    [
        ((0, 7, -7, 1000000), (0, 7, -7, 1000000), (94, 113, 33, 17), (94, 161, 689, 529)),
        ((5000000000, -1, -7), (705032705, 0, 6), (124, 94, 18), (332, 94, 354)),
        ((0.5, -1.44, 0.0025), (1071644672, -816521929, 2026532506), (12, 75, 80), (684, 427, 656)),
        (("to", "Zürich", "\U0001f600", ""), (3707, -1482116162, 1772899, 0), (91, 89, 54, 94), (555, 457, 374, 94)),
    ],
)
def test_keys_fall_where_flink_puts_them(
    keys: tuple[Any, ...], hashes: tuple[int, ...], by_128: tuple[int, ...], by_720: tuple[int, ...]
) -> None:
    """Keys are in the key groups of Flink 2.3 (`KeyGroupRangeAssignment.assignToKeyGroup`) and Java 17 (`hashCode`)."""
    java = java_class(keys)
    assert java_hashes(keys, java).view(np.int32).tolist() == list(hashes)
    assert key_groups_of_keys(keys, java, 128).tolist() == list(by_128)
    assert key_groups_of_keys(keys, java, 720).tolist() == list(by_720)


def test_a_thousand_integers_on_five_subtasks_as_flink_deals_them() -> None:
    """A thousand integers are dealt as Flink 2.3's `KeyGroupRangeAssignment.assignKeyToParallelOperator` does."""
    skew, owners = KeySkew(keys=1000), contiguous(128, 5)
    found = np.bincount(owners, skew.keys_by_group(128)).tolist()
    assert found == [213, 211, 178, 198, 200]
    assert np.bincount(owners, skew.by_group(128)) == pytest.approx(np.array(found) / 1000)


def test_the_default_number_of_key_groups_is_flinks() -> None:
    assert [default_key_groups(n) for n in (1, 85, 86, 170, 171, 1000, 30000)] == [128, 128, 256, 256, 256, 2048, 32768]


@settings(max_examples=40)
@given(st.text(max_size=8), st.text(max_size=8))
def test_hashes_of_words_are_polynomials(first: str, second: str) -> None:
    a, b, both = (int(each) for each in java_hashes([first, second, first + second], "string"))
    assert both == (a * 31 ** (len(second.encode("utf-16-be")) // 2) + b) % 2**32


@settings(max_examples=40)
@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20))
def test_an_integer_and_the_same_long_fall_together(keys: list[int]) -> None:
    assert (java_hashes(keys, "int") == java_hashes(keys, "long")).all()


@settings(max_examples=40)
@given(
    st.lists(st.text(max_size=4), min_size=1, max_size=30, unique=True),
    st.integers(1, 300),
    st.floats(0, 3),
)
def test_nothing_is_lost_between_keys_and_key_groups(words: list[str], groups: int, zipf: float) -> None:
    """Shares and keys of a key group are those of its keys, one by one."""
    skew = KeySkew(keys=tuple(words), zipf=zipf)
    shares, counts = np.zeros(groups), np.zeros(groups)
    weights = [(rank + 1.0) ** -zipf for rank in range(len(words))]
    for word, weight in zip(words, weights, strict=True):
        group = int(key_groups_of_keys([word], "string", groups)[0])
        shares[group] += weight / sum(weights)
        counts[group] += 1
    assert skew.by_group(groups) == pytest.approx(shares)
    assert (skew.keys_by_group(groups) == counts).all()


def test_subtasks_get_what_their_keys_bring() -> None:
    """Subtasks get their keys' shares, one without keys nothing; by the rate model the hottest limits all."""
    skew = KeySkew(keys=WORDS, shares=(5, 4, 3, 3, 2, 1, 1, 1))
    share = np.bincount(contiguous(128, 6), skew.by_group(128), minlength=6)
    assert 0.0 in share.tolist()
    spec = skew.model_dump(mode="json")
    built = world_of(keyed(spec, rate=500, parallelism=6), RunSettings(horizon_s=8))
    built.advance(8)
    took = np.array([task.records_in for task in built.tasks["m"]])
    assert took / took.sum() == pytest.approx(share, abs=0.025)
    assert took.sum() == pytest.approx(8 * 500, rel=0.01)
    job = keyed(spec, rate=5000, parallelism=6)
    costs = RateModel().predict(Scenario.of(job), [job.plan])
    assert costs["throughput_per_s"][0] == pytest.approx(1000 / share.max(), rel=0.03)


def test_windows_have_results_of_the_keys_that_there_are() -> None:
    """Eight words in 128 key groups give eight results a window, whoever has them."""
    window = {"policy": "time", "size_s": 1}
    aggregate = {"kind": "aggregate", "window": window, "group_by": "string", "groups": 8, "service_time_s": 1e-5}
    job = keyed({"keys": WORDS}, parallelism=4, **aggregate)
    run = simulated(job, horizon_s=20, warmup_s=4, period_s=4)
    assert run.metrics.throughput_per_s == pytest.approx(8, rel=0.02)


def test_keys_are_read_and_written_as_they_are() -> None:
    for keys in (WORDS, (1, -2, 3), (0.5, 2.0), 40):
        skew = KeySkew(keys=keys)
        assert parse(KeySkew, skew.model_dump(mode="json", exclude_defaults=True)) == skew
    assert "keys" not in KeySkew(zipf=1).model_dump(mode="json")
    assert (KeySkew(keys=40).by_group(128) == KeySkew(keys=tuple(range(40))).by_group(128)).all()
    ints, longs = KeySkew(keys=(-1, -2)), KeySkew(keys=(-1, -2), long_keys=True)
    assert (ints.by_group(128) != longs.by_group(128)).any()


@pytest.mark.parametrize(
    ("skew", "words"),
    [
        ({"keys": ()}, "must not be empty"),
        ({"keys": 0}, "1 to 10"),
        ({"keys": ["a", "a"]}, "a key twice"),
        ({"keys": [1, 1.0]}, "a key twice"),
        ({"keys": ["a", 1]}, "numbers or words, not both"),
        ({"keys": [True, False]}, "list of words or finite numbers"),
        ({"keys": [2**70]}, "more than 64 bits"),
        ({"keys": ["a"], "long_keys": True}, "long_keys is about integers"),
        ({"zipf": 1, "long_keys": True}, "long_keys is about keys"),
        ({"keys": 3, "drift_every_s": 5}, "leave out drift_every_s"),
        ({"keys": 3, "shares": [1, 2]}, "2 shares for 3 keys"),
    ],
)
def test_what_cannot_be_keys_is_refused(skew: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        keyed(skew)


def test_keys_must_be_those_that_the_operator_counts() -> None:
    window = {"policy": "time", "size_s": 1}
    with pytest.raises(BadInput, match=r"gives 8 keys, and the operator has 5; make them as many"):
        keyed({"keys": WORDS}, kind="aggregate", window=window, group_by="string", groups=5)
    with pytest.raises(BadInput, match=r"Flink's default for its subtasks is 256"):
        keyed({"keys": WORDS}, parallelism=90, key_groups=None)
