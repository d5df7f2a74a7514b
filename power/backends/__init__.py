"""Engines: what runs a target, and what proposes for it."""
