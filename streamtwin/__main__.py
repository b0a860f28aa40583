"""`python -m streamtwin` is `twin`."""

from streamtwin.command import main

if __name__ == "__main__":
    main()
