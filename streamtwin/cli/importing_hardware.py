"""`twin import lstopo | numactl | mlc`: a machine as a host with sockets, distances and bandwidths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.importing import imports
from streamtwin.cli.terminal import AsJson, Quiet, Terminal

if TYPE_CHECKING:
    from streamtwin.connect.importers.hardware import Machine, MemoryDistances

Out = Annotated[Path | None, typer.Option("--out", metavar="YAML", help="New file. Default: stdout.")]
HostName = Annotated[str, typer.Option("--name", help="Name of the host.")]
CorePercent = Annotated[
    float, typer.Option("--core-percent", min=1e-3, help="Speed of one core; 100: a reference core.")
]
Mlc = Annotated[
    Path | None, typer.Option("--mlc", metavar="FILE", help="What mlc measured there: latencies and bandwidths.")
]


@imports.command("lstopo")
def lstopo(
    source: Annotated[Path, typer.Argument(metavar="XML", help="Written by `lstopo --of xml FILE` (hwloc).")],
    mlc: Mlc = None,
    name: HostName = "host",
    core_percent: CorePercent = 100.0,
    out: Out = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """A machine as hwloc sees it, as a cluster of one host.

    Example: `twin import lstopo machine.xml --out host.yaml`, then `twin run JOB --set "cluster=$(cat host.yaml)"`
    """
    from scenarios.files.scenario_file import read_text
    from streamtwin.connect.importers.lstopo import read_lstopo

    machine = read_lstopo(read_text(source), str(source))
    _tell(Terminal(as_json=as_json, quiet=quiet), machine, _measured(mlc), name, core_percent, out)


@imports.command("numactl")
def numactl(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="What `numactl --hardware` printed.")],
    threads_per_core: Annotated[
        int, typer.Option("--threads-per-core", min=1, help="numactl lists processing units, not cores.")
    ] = 1,
    mlc: Mlc = None,
    name: HostName = "host",
    core_percent: CorePercent = 100.0,
    out: Out = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """A machine as numactl sees it, as a cluster of one host.

    Example: `numactl --hardware > numa.txt`, then `twin import numactl numa.txt --threads-per-core 2`
    """
    from scenarios.files.scenario_file import read_text
    from streamtwin.connect.importers.numa_text import read_numactl

    machine = read_numactl(read_text(source), str(source), threads_per_core)
    _tell(Terminal(as_json=as_json, quiet=quiet), machine, _measured(mlc), name, core_percent, out)


@imports.command("mlc")
def mlc_alone(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Latencies or bandwidths that Intel's mlc printed.")],
    cores: Annotated[int, typer.Option("--cores", min=1, help="Cores of each socket; mlc does not say.")],
    ram_mb: Annotated[float, typer.Option("--ram-mb", min=1e-3, help="Memory of the machine; mlc does not say.")],
    name: HostName = "host",
    core_percent: CorePercent = 100.0,
    out: Out = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measured latencies and bandwidths between sockets, as a cluster of one host.

    Example: `mlc --latency_matrix > mlc.txt; mlc --bandwidth_matrix >> mlc.txt`, then
    `twin import mlc mlc.txt --cores 16 --ram-mb 256000`
    """
    from streamtwin.connect.importers.hardware import Machine

    memory = _measured(source)
    assert memory is not None
    nodes = len(memory.latency_ns or memory.bandwidth_gbps or ())
    machine = Machine(cores=(cores,) * nodes, ram_mb=ram_mb, distances=None)
    _tell(Terminal(as_json=as_json, quiet=quiet), machine, memory, name, core_percent, out)


def _measured(path: Path | None) -> MemoryDistances | None:
    from scenarios.files.scenario_file import read_text
    from streamtwin.connect.importers.numa_text import read_mlc

    return None if path is None else read_mlc(read_text(path), str(path))


def _tell(
    terminal: Terminal,
    machine: Machine,
    memory: MemoryDistances | None,
    name: str,
    core_percent: float,
    out: Path | None,
) -> None:
    from scenarios.files.traces import check_free, write_text
    from scenarios.files.yaml_text import to_text
    from streamtwin.connect.importers.hardware import cluster_of

    if out is not None:
        check_free(out)
    cluster, notes = cluster_of(machine, memory, name, core_percent)
    for note in notes:
        terminal.note(f"note: {note}")
    document = cluster.model_dump(mode="json", exclude_defaults=True)
    if out is None and not terminal.as_json:
        terminal.text(to_text(document))
        return
    if out is not None:
        write_text(to_text(document), out)
    terminal.result({"cluster": document, "notes": notes}, f"cluster of one host in {out}")
