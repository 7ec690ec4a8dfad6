"""Offline tools: from archives of 12-lead recordings to dataset folders. Never imports torch."""

import os

__version__ = "0.1.0"

# Read by pyarrow as it is imported: its own allocator keeps what it was given once, and grows with the archive.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
