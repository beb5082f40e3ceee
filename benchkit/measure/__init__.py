"""One measured run: host, counters, checks, gates, the trial itself."""
