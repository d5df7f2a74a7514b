"""Benchmarks and reports over plans and receipts."""
