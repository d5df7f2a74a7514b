"""`python -m power`: the command line."""

if __name__ == "__main__":
    try:
        from power.cli import main

        main()
    except KeyboardInterrupt:  # before `main` could see to it
        raise SystemExit(130) from None
