"""One module a verb; each holds a click command named `command`."""
