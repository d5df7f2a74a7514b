"""Plans: compiled from a manifest, locked in a file, checked, shown and compared."""
