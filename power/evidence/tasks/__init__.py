"""Scored tasks: files of them, how a model is asked, and how its answer is found and judged."""
