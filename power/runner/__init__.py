"""Runs a verified plan in a worker process and hands back what happened."""
