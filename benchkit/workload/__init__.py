"""Workload execution: what pgbench is asked, how it runs, what it prints."""
