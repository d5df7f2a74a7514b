"""GGUF files as evidence: located, opened once, hashed, and read without trust."""
