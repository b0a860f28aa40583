"""Commands `twin import lstopo | numactl | mlc`: a machine as a host with sockets, distances and bandwidths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.given import NewYaml
from streamtwin.cli.options import Options
from streamtwin.cli.terminal import Terminal

if TYPE_CHECKING:
    from streamtwin.connect.importers.hardware import Machine, MemoryDistances

Mlc = Annotated[
    Path | None, typer.Option("--mlc", metavar="FILE", help="What mlc measured there: latencies and bandwidths.")
]


@dataclass(frozen=True)
class AsHost(Options):
    """Options of the host that a machine becomes, and of the file to which it is written."""

    name: Annotated[str, typer.Option(help="Name of the host.")] = "host"
    core_percent: Annotated[float, typer.Option(min=1e-3, help="Speed of one core; 100: a reference core.")] = 100.0
    out: NewYaml = None

    def tell(self, machine: Machine, memory: MemoryDistances | None, terminal: Terminal) -> None:
        """Writes a cluster of one host, the machine."""
        from scenarios.files.traces import check_free
        from scenarios.files.yaml_text import to_text
        from streamtwin.connect.importers.hardware import cluster_of

        check_free(self.out)
        cluster, notes = cluster_of(machine, memory, self.name, self.core_percent)
        for note in notes:
            terminal.note(f"note: {note}")
        document = cluster.model_dump(mode="json", exclude_defaults=True)
        words = f"cluster of one host in {self.out}"
        terminal.file(to_text(document), self.out, {"cluster": document, "notes": notes}, words)


def lstopo(
    source: Annotated[Path, typer.Argument(metavar="XML", help="Written by `lstopo --of xml FILE` (hwloc).")],
    host: AsHost,
    terminal: Terminal,
    mlc: Mlc = None,
) -> None:
    """A machine as hwloc sees it, as a cluster of one host.

    Example: `twin import lstopo machine.xml --out host.yaml`, then `twin run JOB --set "cluster=$(cat host.yaml)"`
    """
    from scenarios.files.scenario_file import read_text
    from streamtwin.connect.importers.hardware_text import read_lstopo

    host.tell(read_lstopo(read_text(source), str(source)), None if mlc is None else _measured(mlc), terminal)


def numactl(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="What `numactl --hardware` printed.")],
    host: AsHost,
    terminal: Terminal,
    threads_per_core: Annotated[int, typer.Option(min=1, help="numactl lists processing units, not cores.")] = 1,
    mlc: Mlc = None,
) -> None:
    """A machine as numactl sees it, as a cluster of one host.

    Example: `numactl --hardware > numa.txt`, then `twin import numactl numa.txt --threads-per-core 2`
    """
    from scenarios.files.scenario_file import read_text
    from streamtwin.connect.importers.hardware_text import read_numactl

    machine = read_numactl(read_text(source), str(source), threads_per_core)
    host.tell(machine, None if mlc is None else _measured(mlc), terminal)


def mlc_alone(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Latencies or bandwidths that Intel's mlc printed.")],
    cores: Annotated[int, typer.Option(min=1, help="Cores of each socket; mlc does not say.")],
    ram_mb: Annotated[float, typer.Option(min=1e-3, help="Memory of the machine; mlc does not say.")],
    host: AsHost,
    terminal: Terminal,
) -> None:
    """Measured latencies and bandwidths between sockets, as a cluster of one host.

    Example: `mlc --latency_matrix > mlc.txt; mlc --bandwidth_matrix >> mlc.txt`, then
    `twin import mlc mlc.txt --cores 16 --ram-mb 256000`
    """
    from streamtwin.connect.importers.hardware import Machine

    memory = _measured(source)
    nodes = len(memory.latency_ns or memory.bandwidth_gbps or ())
    host.tell(Machine(cores=(cores,) * nodes, ram_mb=ram_mb, distances=None), memory, terminal)


def _measured(path: Path) -> MemoryDistances:
    from scenarios.files.scenario_file import read_text
    from streamtwin.connect.importers.hardware_text import read_mlc

    return read_mlc(read_text(path), str(path))
