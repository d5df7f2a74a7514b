"""The llama-cpp-python adapter: its low-level layer only, in a worker process."""
