"""The I/O of runs: open, control and list them; save the state of knowledge bases."""
