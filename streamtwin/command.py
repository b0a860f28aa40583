"""Entry point of `twin`, safe from a user's own modules in the current folder, on PYTHONPATH or installed over ours."""

from __future__ import annotations

import os
import signal
import sys


def _begun_in_vain(*_signal: object) -> None:
    """Ends the process on Ctrl-C while modules are imported: nothing is half-made yet, and no module can catch it."""
    os.write(2, b"twin: interrupted; nothing half-made is left, the same command begins anew\n")
    os._exit(130)


try:
    from streamtwin import package

    package.claim()  # here, so that spawned processes, which import this file, do it too
except KeyboardInterrupt:
    _begun_in_vain()


def main() -> None:
    """Runs the command line. A foreign module in the place of ours gives one line on stderr, and exit status 2."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if ours:
            signal.signal(signal.SIGINT, _begun_in_vain)
        from streamtwin.cli.app import main as run

        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        _begun_in_vain()
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in package.PACKAGES or os.environ.get("TWIN_TRACEBACK", "") not in ("", "0"):
            raise
        told = package.foreign([missing]) or (
            f"{error}: what is installed as {missing!r} in {package.ROOT} is not streamtwin's, or not all of it; "
            "install streamtwin into an environment of its own"
        )
        print(f"twin: {told}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
