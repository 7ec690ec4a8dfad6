"""Other people's readers: whether they are there, and what they stumble over."""

import contextlib
import warnings
from collections.abc import Iterator

from data_tools.physical import Refusal

EXTRA = "pip install 'leadwise[formats]'"


@contextlib.contextmanager
def reading(library: str) -> Iterator[None]:
    """Whatever the library raises becomes one line; what it warns of would reach the screen once a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError:
        raise Refusal(f"{library} is needed to read such files; {EXTRA}") from None
    except (Refusal, MemoryError):
        raise
    except Exception as error:
        raise Refusal(f"{library} cannot read it: {type(error).__name__}") from None
