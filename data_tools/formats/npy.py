"""NumPy's .npy: an array and nothing else; no pickled objects."""

import math
from typing import BinaryIO

import numpy as np

from data_tools.formats.library import reading
from data_tools.formats.raw import Raw, check_array
from data_tools.physical import Refusal

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read(file: BinaryIO, key: str | None) -> Raw:
    with reading("numpy"):
        version = np.lib.format.read_magic(file)
        shape, _, dtype = _HEADERS[version](file)
        check_array(shape, dtype)
        begin = file.tell()
        if file.seek(0, 2) - begin < math.prod(shape) * dtype.itemsize:
            raise Refusal("file is shorter than it says")
        file.seek(0)
        return Raw(np.lib.format.read_array(file, allow_pickle=False), either_way=True)
