"""Signed receipts: made, kept apart from the engine, verified by outsiders."""
