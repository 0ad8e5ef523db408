"""What there is to look at: counts, /metrics, and the page at /."""
