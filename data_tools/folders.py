"""The files of a recording: none outside of the archive is ever opened, and none that is no ordinary file."""

import os
import stat
from typing import NamedTuple

_HEADER_LIMIT = 1 << 20  # bytes; the multi-segment header of a month in intensive care has 0.2 MB


class Folder(NamedTuple):
    """Where a recording's files are: nothing outside of `root` is ever opened."""

    root: str
    path: str

    def open(self, name: str) -> int:
        """-> descriptor of an ordinary file."""
        descriptor = os.open(self.checked(name), os.O_RDONLY | os.O_NONBLOCK)  # a pipe would block for ever
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ValueError("a file of the recording is no ordinary file")
        return descriptor

    def checked(self, name: str) -> str:
        if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise ValueError("header names a file outside its folder")
        path = f"{self.path}/{name}"
        if stat.S_ISLNK(os.lstat(path).st_mode):
            path = os.path.realpath(path)
            if os.path.commonpath([path, os.path.realpath(self.root)]) != os.path.realpath(self.root):
                raise ValueError("a file of the recording is a link out of the archive")
        return path

    def read_header(self, name: str) -> tuple[str, os.stat_result]:
        descriptor = self.open(name)
        try:
            status = os.fstat(descriptor)
            if status.st_size > _HEADER_LIMIT:
                raise ValueError("header is larger than 1 MiB")
            return os.read(descriptor, status.st_size).decode("utf-8", "replace"), status
        finally:
            os.close(descriptor)
