"""Manifests and profiles: what a person writes, read strictly and with places."""
