"""Names that say nothing of a person, for every recording that is not public."""

import contextlib
import os
import secrets
from hashlib import blake2b
from pathlib import Path

OLDEST = 89  # a higher age could single a person out


def secret_of(raw: Path) -> bytes:
    """The key of `raw`'s pseudonyms, in a file beside it (never in a dataset); made on first use."""
    path = raw.with_name(f"{raw.name}.secret")
    try:
        if not path.exists():
            temporary = path.with_name(f"{path.name}.{os.getpid()}")
            temporary.touch(mode=0o600)
            temporary.write_text(secrets.token_hex(32) + "\n")
            with contextlib.suppress(FileExistsError):  # of two runs at once, one makes it and both use it
                os.link(temporary, path)
            temporary.unlink()
        secret = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path}: the secret that hides the names of these recordings cannot be kept there ({error}); "
            f"for a read-only folder, name a symbolic link to {raw.name} from a folder of your own"
        ) from None
    if len(secret) < 16:
        raise ValueError(f"{path}: too short for a secret; put back the one it was, or remove it to make a new one")
    return secret


def known_secret(raw: Path) -> bytes | None:
    """The one that an earlier dataset was made with, if any."""
    return secret_of(raw) if raw.with_name(f"{raw.name}.secret").exists() else None


def pseudonym(secret: bytes, name: str) -> str:
    """16 characters, always the same for the same secret and name."""
    return blake2b(name.encode("utf-8", "surrogateescape"), key=secret, digest_size=8).hexdigest()


def record_name(secret: bytes, path: str) -> str:
    """What a dataset calls the recording of `path`, relative to the archive; a WFDB record goes without its suffix."""
    return pseudonym(secret, path.removesuffix(".hea"))


def digest(secret: bytes, data: bytes) -> str:
    """Of a table of patients: nobody can try out names on it."""
    return blake2b(data, key=secret, digest_size=32).hexdigest()


def private_age(age: int | None) -> int | None:
    return None if age is None else min(age, OLDEST + 1)
