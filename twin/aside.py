"""Where something is made before it gets its name, so that whoever sees the name sees all of it."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

HOST_LENGTH = 40


def aside(path: Path) -> Path:
    """A hidden name beside `path` that no other process takes, on this machine or another that shares the storage:
    in containers process numbers repeat.
    """
    host = re.sub(r"[^\w.-]", "-", socket.gethostname())[:HOST_LENGTH]
    return path.with_name(f".{path.name}.{host}.{os.getpid()}.partial")
