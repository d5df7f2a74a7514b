"""`python -m power`: the command line."""

from power.cli import main

if __name__ == "__main__":
    main()
