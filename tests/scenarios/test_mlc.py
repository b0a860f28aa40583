"""A machine from what Intel's Memory Latency Checker prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios import cli
from scenarios.files import scenario_file
from scenarios.importers.mlc import read_mlc
from twin.errors import BadInput

PRINTED = """Intel(R) Memory Latency Checker - v3.9
Measuring idle latencies (in ns)...
\t\tNuma node
Numa node\t     0\t     1\t
       0\t  80.0\t 150.5\t
       1\t 141.0\t  81.0\t

Measuring Memory Bandwidths between nodes within system
Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)
Using Read-only traffic type
\t\tNuma node
Numa node\t     0\t     1\t
       0\t57600.1\t17200.0\t
       1\t17100.0\t57500.2\t
"""
LATENCIES = PRINTED[: PRINTED.index("Measuring M")]


def printed(tmp_path: Path, text: str = PRINTED) -> Path:
    path = tmp_path / "mlc.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_a_line_costs_is_by_memory_and_reader_beyond_the_readers_own(tmp_path: Path) -> None:
    """Rows of the tool are readers: socket 0 reads memory 1 in 150.5 ns, its own in 80."""
    host = read_mlc(printed(tmp_path), name="box", cores=4, clock_ghz=2.0, ram_mb=1e4).hosts[0]
    assert host.socket_latency_s(1, 0) == pytest.approx(70.5e-9) and host.socket_latency_s(0, 1) == pytest.approx(60e-9)
    assert host.socket_latency_s(0, 0) == 0
    assert host.numa is not None and host.numa.bandwidth_gbps is not None
    assert [host.numa.bandwidth_gbps[1][0], host.numa.bandwidth_gbps[0][1]] == pytest.approx([17.2, 17.1])
    assert host.sockets[1].bandwidth_gbps == pytest.approx(57.5002)


def test_latencies_alone_will_do(tmp_path: Path) -> None:
    host = read_mlc(printed(tmp_path, LATENCIES), name="h", cores=1, clock_ghz=None, ram_mb=1).hosts[0]
    assert host.numa is not None and host.numa.bandwidth_gbps is None and host.cpu_percent == 200


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nothing here", "no matrix of latencies"),
        (PRINTED.replace("\t 150.5", ""), "not square"),
        (PRINTED.replace("       1\t 141", "       2\t 141"), "line 6: row 2 where 1 comes"),
    ],
)
def test_what_is_no_matrix_is_said(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        read_mlc(printed(tmp_path, text), name="h", cores=1, clock_ghz=None, ram_mb=1)


def test_the_command_writes_what_a_scenario_takes(tmp_path: Path) -> None:
    out = tmp_path / "cluster.yaml"
    with pytest.raises(SystemExit) as stopped:
        cli.main(["import", "mlc", str(printed(tmp_path)), "--cores", "4", "--out", str(out), "--quiet"])
    assert stopped.value.code == 0
    text = scenario_file.dump(scenario_file.load("edge-filter"))
    start, end = text.index("cluster:"), text.index("\nplan:") + 1
    document = text[:start] + out.read_text() + text[end:]
    placed = document.replace("edge-1", "server").replace("cloud-1", "server/1")
    assert scenario_file.parse_scenario(placed, "mine").cluster.hosts[0].socket_count == 2
