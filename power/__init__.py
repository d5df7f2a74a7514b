"""Power: speculative decoding that people can review, lock, run and prove."""

__version__ = "0.1.0"
