"""Recordings as vectors: found, read in the background, encoded in batches, written as they come."""
