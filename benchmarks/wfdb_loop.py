"""The loop that everyone writes first: wfdb.rdrecord and webdataset.ShardWriter, the same 10 s crops, no checks.

python -m benchmarks.wfdb_loop RAW OUT
"""

import sys
from pathlib import Path

import numpy as np
import webdataset
import wfdb

CROP = 5000


def main(raw: Path, out: Path) -> None:
    out.mkdir(parents=True)
    with webdataset.ShardWriter(f"{out}/shard-%06d.tar", maxsize=256e6, verbose=0) as sink:
        for header in sorted(raw.rglob("*.hea")):
            record = wfdb.rdrecord(str(header.with_suffix("")), physical=False)
            for start in range(0, len(record.d_signal) - CROP + 1, CROP):
                crop = np.ascontiguousarray(record.d_signal[start : start + CROP], "<i2")
                about = {"record": record.record_name, "comments": record.comments}
                sink.write({"__key__": f"{record.record_name}-{start:06d}", "npy": crop, "json": about})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
