"""What `serve --record` writes: each call of the API as a line of a file."""
