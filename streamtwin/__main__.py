"""`python -m streamtwin` is `twin`."""

from streamtwin.cli import main

if __name__ == "__main__":
    main()
