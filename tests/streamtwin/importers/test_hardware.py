"""`twin import lstopo | numactl | mlc`: small machines as those tools write them, and refused texts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from streamtwin.connect.importers.hardware import LOCAL_NS, cluster_of, read_lstopo, read_mlc, read_numactl
from tests.commands import refused, twin
from twin.cluster import Cluster
from twin.errors import BadInput
from twin.spec import parse

V2 = """<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">
<object type="Machine" cpuset="0x000000ff">
<object type="Package" cpuset="0xf"><object type="NUMANode" os_index="0" cpuset="0xf" local_memory="8000000000"/>
  <object type="Core" cpuset="0x00000003"><object type="PU" cpuset="0x1"/><object type="PU" cpuset="0x2"/></object>
  <object type="Core" cpuset="0x0000000c"/></object>
<object type="Package" cpuset="0xf0"><object type="NUMANode" os_index="1" cpuset="0xf0" local_memory="8000000000"/>
  <object type="Core" cpuset="0x00000030"/><object type="Core" cpuset="0x000000c0"/></object>
 <object type="NUMANode" os_index="2" cpuset="0x0" local_memory="4000000000"/>
</object>
<distances2 type="NUMANode" nbobjs="3" kind="5" name="NUMALatency" indexing="os"><indexes length="5">0 1 2 </indexes>
<u64values length="9">10 21 30 </u64values><u64values length="9">21 10 30 30 30 10 </u64values></distances2>
</topology>"""

V1 = """<topology><object type="Machine" cpuset="0x0000000f,0x0000000f">
<distances nbobjs="2" relative_depth="1" latency_base="10.0"><latency value="1.0"/><latency value="2.1"/>
<latency value="2.1"/><latency value="1.0"/></distances>
<object type="NUMANode" os_index="0" cpuset="0x0000000f" local_memory="1000000000">
<object type="Core" cpuset="0x00000003"/>
<object type="Core" cpuset="0x0000000c"/></object>
<object type="NUMANode" os_index="1" cpuset="0x0000000f,0x0" local_memory="1000000000">
<object type="Core" cpuset="0x0000000f,0x0"/></object></object></topology>"""

NUMACTL = """available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3
node 0 size: 8000 MB
node 0 free: 100 MB
node 1 cpus: 4 5 6 7
node 1 size: 8000 MB
node 1 free: 100 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
"""

MLC = """Intel(R) Memory Latency Checker - v3.9
Measuring idle latencies (in ns)...
\t\tNuma node
Numa node\t     0\t     1\t     2\t
       0\t  80.0\t 140.0\t 300.0\t
       1\t 142.0\t  82.0\t 300.0\t

Measuring Memory Bandwidths between nodes within system
Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)
Using Read-only traffic type
\t\tNuma node
Numa node\t     0\t     1\t     2\t
       0\t100000.0\t 30000.0\t 9000.0
       1\t 40000.0\t110000.0\t 9000.0
"""


@pytest.mark.parametrize(
    ("machine", "cores", "ram_mb"),
    [
        (read_lstopo(V2, "v2"), (2, 2), 20_000),
        (read_lstopo(V1, "v1"), (2, 1), 2_000),
        (read_numactl(NUMACTL, "numactl", 2), (2, 2), 16_777),
    ],
)
def test_a_socket_is_a_node_with_cores(machine, cores, ram_mb):
    assert machine.cores == cores
    assert machine.ram_mb == pytest.approx(ram_mb, abs=1)
    assert np.array(machine.distances) == pytest.approx(np.array([[1, 2.1], [2.1, 1]]))
    (host,), notes = cluster_of(machine, None, "h", 50.0)[0].hosts, cluster_of(machine, None, "h", 50.0)[1]
    assert host.cpu_percent == 50 * sum(cores)
    assert host.numa.latency_ns[0][1] == host.numa.latency_ns[1][0] == pytest.approx(1.1 * LOCAL_NS)
    assert any("relative" in note for note in notes)


def test_measured_latencies_and_bandwidths_take_the_place_of_distances():
    measured = MLC.replace("142.0", "152.0")  # by the cores of 1 from the memory of 0
    (host,) = cluster_of(read_numactl(NUMACTL, "numactl", 2), read_mlc(measured, "mlc"), "h", 100.0)[0].hosts
    assert host.numa.latency_ns == ((0, 70), (60, 0)), "152 beyond the 82 of 1, and 140 beyond the 80 of 0"
    assert host.socket_latency_s(0, 1) == pytest.approx(70e-9), "who fetches waits"
    assert host.numa.bandwidth_gbps[0][1] == 40, "from the memory of 0 to the cores of 1, as row 1 of mlc says"
    assert [socket.bandwidth_gbps for socket in host.sockets] == [100, 110]


def test_ranges_of_units_are_counted():
    """Ranges such as 0-3, which other tools and people write, count as 0 1 2 3."""
    ranges = NUMACTL.replace("cpus: 0 1", "cpus: 0-1", 1)
    assert ranges != NUMACTL and read_numactl(ranges, "numactl", 2).cores == read_numactl(NUMACTL, "numactl", 2).cores


def test_one_socket_has_no_distances():
    one = "node 0 cpus: 0 1\nnode 0 size: 100 MB\nnode distances:\nnode   0\n  0:  10\n"
    (host,) = cluster_of(read_numactl(one, "numactl", 1), None, "h", 100.0)[0].hosts
    assert host.sockets == () and host.numa is None and host.cpu_percent == 200


def test_the_commands_write_a_cluster_that_a_scenario_takes(tmp_path: Path) -> None:
    for name, text in (("v2.xml", V2), ("numactl.txt", NUMACTL), ("mlc.txt", MLC)):
        (tmp_path / name).write_text(text)
    out = tmp_path / "cluster.yaml"
    done = twin("import", "lstopo", tmp_path / "v2.xml", "--mlc", tmp_path / "mlc.txt", "--name", "big", "--out", out)
    assert done.returncode == 0, done.stderr
    cluster = parse(Cluster, yaml.safe_load(out.read_text()))
    assert cluster.hosts[0].name == "big" and cluster.hosts[0].numa.latency_ns[0][1] == 60
    told = twin("import", "mlc", tmp_path / "mlc.txt", "--cores", 8, "--ram-mb", 64_000, "--json")
    assert json.loads(told.stdout)["cluster"]["hosts"][0]["cpu_percent"] == 1600


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("lstopo", "node 0", "is no XML"),
        ("lstopo", "<html/>", "XML of another tool (<html>)"),
        ("lstopo", "<topology/>", "lists no cores"),
        ("lstopo", '<topology><object type="Core" cpuset="0x1"/></topology>', "how much memory"),
        ("lstopo", V2.replace("30 30 10", "30"), "7 distances for 3 NUMA nodes"),
        ("lstopo", V2.replace('"0x00000003"', '"zzz"'), "is damaged"),
        ("lstopo", V2.replace("10 21 30", "90 21 30"), "nearer to another node than to itself"),
        ("numactl", "No NUMA", "is not what 'numactl --hardware' prints"),
        ("numactl", NUMACTL.replace("  1:  21  10\n", ""), "is not 2 x 2"),
    ],
)
def test_what_is_of_another_tool_is_refused(command: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    assert words in refused("import", command, tmp_path / "file", "--out", tmp_path / "new.yaml")
    assert not (tmp_path / "new.yaml").exists()


def test_measurements_of_another_machine_are_refused() -> None:
    three = read_numactl(
        NUMACTL.replace("node distances", "node 2 cpus: 8 9\nnode distances").partition("node dist")[0], "n", 1
    )
    with pytest.raises(BadInput, match="of 2 nodes and the machine has 3"):
        cluster_of(three, read_mlc(MLC, "mlc"), "h", 100.0)
    with pytest.raises(BadInput, match="is cut off"):
        read_mlc(MLC.replace(" 142.0\t  82.0\t 300.0\t", " 142.0"), "mlc")
    with pytest.raises(BadInput, match="no table in it"):
        read_mlc("hello", "mlc")
    with pytest.raises(BadInput, match="no multiple of --threads-per-core 3"):
        read_numactl(NUMACTL, "n", 3)


PIECES = ("", "0", "-1", "1e400", "NaN", "9" * 24, "x", "\n", '"', "[", "}", ",", "<", "&", "0x", ".", "1-99999", "  ")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (V1, lambda text: read_lstopo(text, "file")),
        (V2, lambda text: read_lstopo(text, "file")),
        (NUMACTL, lambda text: read_numactl(text, "file", 1)),
        (MLC, lambda text: read_mlc(text, "file")),
    ],
)
def test_damaged_texts_are_read_or_refused_in_one_line(text: str, read: Callable[[str], Any]) -> None:
    for seed in range(200):
        rng, damaged = random.Random(seed), text
        for _ in range(rng.choice((1, 1, 4))):
            start = rng.randrange(len(damaged))
            damaged = damaged[:start] + rng.choice(PIECES) + damaged[start + rng.choice((0, 1, 10)) :]
        with suppress(BadInput):
            read(damaged)
    with pytest.raises(BadInput, match="is no list of processing units"):
        read_numactl(NUMACTL.replace("4 5 6 7", "4 5-6-7"), "file", 1)
