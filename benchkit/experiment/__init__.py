"""Which runs, in which order, kept safe: factors, rounds, the ledger."""
