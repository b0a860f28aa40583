"""Checks and reads a `--master` before a JVM is started for it."""

from __future__ import annotations

import re
import socket

from twin.errors import BadInput

REACH_TIMEOUT_S = 5.0

_LOCAL = re.compile(r"local(?:\[(\*|[1-9]\d*)(?:,\s*([1-9]\d*))?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\d+,\s*\d+,\s*\d+\]")
_STANDALONE = re.compile(r"spark://(.+)")
_KUBERNETES = re.compile(r"k8s://(?:(https?)://)?([^/]+)")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def check_master(master: str) -> None:
    """Raises BadInput if Spark has no such kind of master, or if nothing answers at its address."""
    if _LOCAL.fullmatch(master) or _LOCAL_CLUSTER.fullmatch(master) or master == "yarn":
        return
    addresses = _addresses(master)
    if not addresses:
        raise BadInput(
            f"--master {master!r} is no Spark master; use local[*], local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT"
        )
    if not any(_answers(host, port) for host, port in addresses):
        raise BadInput(f"--master {master!r} does not answer within {REACH_TIMEOUT_S:g} s; start it, or use local[*]")


def is_local(master: str) -> bool:
    """Whether the work happens in processes of this machine's own session."""
    return _LOCAL.fullmatch(master) is not None


def on_loopback(master: str) -> bool:
    """Whether driver and executors can meet on 127.0.0.1, so that no port need be open to the network."""
    if is_local(master) or _LOCAL_CLUSTER.fullmatch(master):
        return True
    addresses = _addresses(master)
    return bool(addresses) and all(host in _LOOPBACK for host, _ in addresses)


def with_retries(master: str) -> str:
    """The master with four attempts a task: plain local[N] gives one only, whatever spark.task.maxFailures says."""
    match = _LOCAL.fullmatch(master)
    if match is None or match.group(2):
        return master
    return f"local[{match.group(1) or 1},4]"


def _addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of each master that the address names; empty if it names none."""
    default_port = None
    if match := _STANDALONE.fullmatch(master):
        parts = match.group(1).split(",")
    elif match := _KUBERNETES.fullmatch(master):
        parts, default_port = [match.group(2)], 80 if match.group(1) == "http" else 443
    else:
        return []
    found = []
    for part in parts:
        host, colon, port = part.rpartition(":")
        if not colon and default_port is not None:
            host, port = part, str(default_port)
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            return []
        found.append((host.strip("[]"), int(port)))
    return found


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=REACH_TIMEOUT_S):
            return True
    except OSError:
        return False
