"""Running sessions on several workers at once, here or on the machines of a cluster."""
