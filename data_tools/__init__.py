"""Offline tools: from archives of 12-lead recordings to dataset folders. Never imports torch."""

__version__ = "0.1.0"
