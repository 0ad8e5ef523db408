"""The APIs that clients of the gateway speak, over chat completions. Pure."""
