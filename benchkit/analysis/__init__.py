"""What the numbers say: metrics, ratios, intervals, verdicts, claims."""
