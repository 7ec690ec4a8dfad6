"""The public archives, complete and verified: python -m data_tools.download challenge-2021 --out RAW

SHA256SUMS.txt of the archive says what there is. Every file of it is fetched into RAW.partial, verified there, and
then renamed; what is in RAW already is verified and not fetched again.
"""

import argparse
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath

from data_tools import console, files, stores
from data_tools.console import progress, say, shown
from data_tools.stores import Store

SUMS = "SHA256SUMS.txt"
_PART = re.compile(rf"[0-9a-f]{{64}}|{SUMS}")  # what is ours in RAW.partial
_ENOUGH = 50  # files lost in a row: the server is gone
_OF_INTEREST = ("training", "records500")
_ATTEMPTS = 3  # at a file whose bytes are not the right ones
_LARGEST_SUMS = 1 << 28  # bytes
_EPILOG = """examples:
  python -m data_tools.download challenge-2021 --out raw/challenge-2021
  # many times as fast, with pip install 'leadwise[s3]'
  python -m data_tools.download challenge-2021 --out raw/challenge-2021 --from s3://physionet-open/challenge-2021/1.0.3
"""


@dataclass(frozen=True)
class Published:
    where: str
    wanted: str  # pattern of the paths that are of use here
    needed: str  # of this path there is one in every copy of the archive


ARCHIVES = {
    "challenge-2021": Published(
        where="https://physionet.org/files/challenge-2021/1.0.3",
        wanted=r"LICENSE\.txt|RECORDS|training/.+",
        needed=r"training/.+\.hea",
    ),
    "ptb-xl": Published(
        where="https://physionet.org/files/ptb-xl/1.0.3",
        wanted=r"LICENSE\.txt|RECORDS|ptbxl_database\.csv|records500/.+",
        needed=r"records500/.+\.hea",
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_tools.download",
        description="Fetches an archive of PhysioNet, or what is missing of it, and verifies every file.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("archive", choices=ARCHIVES)
    parser.add_argument("--out", required=True, type=Path, metavar="RAW", help="the folder of the archive")
    parser.add_argument("--from", dest="where", metavar="URL", help="a copy of it: https://, http:// or s3://")
    parser.add_argument("--jobs", type=_jobs, default=8, metavar="N", help="files at a time (default 8)")
    return console.run(_download, parser.parse_args())


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 256")
    return int(text)


def _download(arguments: argparse.Namespace) -> int:
    archive = ARCHIVES[arguments.archive]
    out = Path(os.path.realpath(arguments.out))
    partial = out.with_name(f"{out.name}.partial")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: is a file")
    with stores.opened(arguments.where or archive.where) as store, files.locked(partial):
        sums = _sums(store, archive, out, partial)
        run = _Run(store, out, partial)
        run.all(sums, arguments.jobs)
        if run.failed:
            for line in run.failed[:10]:
                say(line)
            raise ValueError(
                f"{len(run.failed):,} of {len(sums):,} files are missing; the same command tries them again"
            )
        _check_records(out, sums)
        say(f"{out}: {len(sums):,} files whole; {run.fetched:,} fetched ({run.bytes / 1e6:,.1f} MB)")
        for path in partial.glob("*"):
            if _PART.fullmatch(path.name):
                path.unlink()
    return 0


def _sums(store: Store, archive: Published, out: Path, partial: Path) -> dict[str, str]:
    """path -> sha256, of the files that are wanted; from the list that lies in `out`, if there is one."""
    path = out / SUMS
    fetched = partial / SUMS
    if not path.exists():
        fetched.unlink(missing_ok=True)
        try:
            stores.fetch(store, SUMS, fetched, threading.Event(), _LARGEST_SUMS)
        except stores.LostError as error:
            fetched.unlink(missing_ok=True)
            raise ValueError(f"{store.where}/{SUMS}: {error}") from None
    found = read_sums(path if path.exists() else fetched)
    if not any(re.fullmatch(archive.needed, name) for name in found):
        where = path if path.exists() else f"{store.where}/{SUMS}"
        raise ValueError(f"{where}: lists no file like {archive.needed}; is this another archive?")
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        os.replace(fetched, path)
    return {name: digest for name, digest in found.items() if re.fullmatch(archive.wanted, name)}


def read_sums(path: Path) -> dict[str, str]:
    """`digest path` a line, with one space as PhysioNet writes it or two; no path leaves the folder."""
    sums: dict[str, str] = {}
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            match = re.fullmatch(r"([0-9a-fA-F]{64}) [ *]?(\S.*?)\s*", line)
            if match is None:
                if line.strip():
                    raise ValueError(f"{path}: line {number} is not a sha256 and a path")
                continue
            if not is_inside(match[2]):
                raise ValueError(f"{path}: line {number} names a file outside the folder: {shown(match[2])}")
            sums[PurePosixPath(match[2]).as_posix()] = match[1].lower()
    return sums


def is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\\" not in name and "\0" not in name


@dataclass
class _Run:
    store: Store
    out: Path
    partial: Path
    fetched: int = 0
    bytes: int = 0
    in_a_row: int = 0  # that were lost
    failed: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def all(self, sums: dict[str, str], jobs: int) -> None:
        pool = ThreadPoolExecutor(jobs)
        try:
            futures = [pool.submit(self.one, name, digest) for name, digest in sums.items()]
            for future in progress(as_completed(futures), len(futures), "files"):
                future.result()
        finally:
            self.stop.set()
            pool.shutdown(cancel_futures=True)

    def one(self, name: str, digest: str) -> None:
        path = self.out / name
        if path.is_file() and not path.is_symlink() and files.digest(path) == digest:
            return
        try:
            self._check_place(path)
            part, size = self._fetch(name, digest)
        except stores.LostError as error:
            self._lost(f"{shown(name)}: {error}")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, path)
        with self.lock:
            self.in_a_row = 0
            self.fetched += 1
            self.bytes += size

    def _lost(self, line: str) -> None:
        with self.lock:
            self.in_a_row += 1
            self.failed.append(line)
        if self.in_a_row >= _ENOUGH and not self.stop.is_set():
            self.stop.set()
            raise ValueError(f"{self.in_a_row} files in a row cannot be had, the last is {line}; try again later")

    def _check_place(self, path: Path) -> None:
        """No link in the folder leads what is fetched out of it."""
        if not Path(os.path.realpath(path.parent)).is_relative_to(self.out):
            raise stores.LostError("its folder is a link to somewhere else")
        if path.is_dir():
            raise stores.LostError("a folder is in its place")

    def _fetch(self, name: str, digest: str) -> tuple[Path, int]:
        """-> a file that is called by what it must become, and how many bytes were fetched."""
        part, size = self.partial / sha256(os.fsencode(f"{digest} {name}")).hexdigest(), 0
        for _ in range(_ATTEMPTS):
            size += stores.fetch(self.store, name, part, self.stop)
            if files.digest(part) == digest:
                return part, size
            part.unlink()
        raise stores.LostError(f"its bytes are not those of {SUMS}, {_ATTEMPTS} times")


def _check_records(out: Path, sums: dict[str, str]) -> None:
    """What the lists of records name is there: headers, and folders with a list of their own."""
    missing = []
    for name in sums:
        if PurePosixPath(name).name != "RECORDS":
            continue
        for line in filter(None, map(str.strip, (out / name).read_text(errors="surrogateescape").splitlines())):
            path = (PurePosixPath(name).parent / line).as_posix()
            path = f"{path}/RECORDS" if line.endswith("/") else f"{path}.hea"
            if path not in sums and path.split("/")[0] in _OF_INTEREST:
                missing.append(path)
    if missing:
        raise ValueError(f"{out}: RECORDS names {len(missing):,} files that {SUMS} lacks, such as {shown(missing[0])}")


if __name__ == "__main__":
    sys.exit(main())
