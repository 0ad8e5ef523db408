"""Many tasks, each in a clean folder and a process of its own, on one machine or on a Ray cluster."""
