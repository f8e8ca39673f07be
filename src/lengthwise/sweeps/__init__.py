"""Many runs: which cells, one process each, and what became of them. Never imports torch."""
