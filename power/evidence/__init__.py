"""What a profile is worth: measurements that were gated, signed, and can be derived again."""
