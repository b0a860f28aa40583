"""Makes `python -m streamtwin` the same as `twin`."""

from streamtwin.command import main

if __name__ == "__main__":
    main()
