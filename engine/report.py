"""python -m engine.report RUN [--compare RUN2 ...] --out report.html: a run on one page that needs no network"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from engine import command
from engine.folders.runs import Run, read_all
from engine.reporting import augmentations, census, components, configuration, curves, neighbours, rows, scores, summary
from engine.reporting.page import LeftOut, Section, page

_ABOUT = """RUN: the run.dir of a pre-training or a fine-tuning, finished or not. It brings its curves, settings, the
census of its dataset, the augmentations drawn, and once it has finished, what its encoder makes of the gallery and of
the classes. --compare brings further runs: those of the same kind into the same plots, with what differs in their
settings; and fine-tuned ones, of RUN or of others, with their RUN2/evaluation*.json (engine.evaluate --json), the
tables beside the paper's and the scores against the lead set. Neighbours are those of the compared run that was
fine-tuned for identification, if there is one. What is not there is left out, and the page says so."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.report", description=_ABOUT)
    parser.add_argument("run", type=Path, metavar="RUN", help="what the page is about")
    parser.add_argument("--compare", type=Path, nargs="+", default=[], metavar="RUN2", help="runs to set beside it")
    parser.add_argument("--out", type=Path, required=True, metavar="PAGE", help="the page, as report.html")
    return command.run(_report, parser.parse_args())


def _report(given: argparse.Namespace) -> int:
    command.check_file("--out", given.out)
    runs = read_all(given.run, given.compare)
    found = list(sections(runs))
    command.write(given.out, page(runs[0].name, summary.head(runs), found))
    for one in found:
        if isinstance(one, LeftOut):
            print(f"left out: {one.title}: {one.why}")
    print(f"{given.out}: {given.out.stat().st_size / 1e6:.1f} MB")
    return 0


def sections(runs: list[Run]) -> Iterator[Section | LeftOut]:
    """Each on its own: what is wrong with one leaves the others whole."""
    evaluations = rows.evaluated(runs)
    builders: dict[str, Callable[[], list[Element]]] = {
        "Curves": lambda: curves.section(runs),
        "Evaluation": lambda: scores.section(evaluations),
        "Score against lead set": lambda: scores.against_leads(evaluations),
        "Nearest neighbours": lambda: neighbours.section(runs),
        "Principal components": lambda: components.section(runs),
        "Augmentations": lambda: augmentations.section(runs),
        "Dataset": lambda: census.section(runs),
        "Configuration": lambda: configuration.section(runs),
    }
    for title, build in builders.items():
        print(f"{title} ...", file=sys.stderr, flush=True)
        try:
            yield Section(title, build())
        except (ValueError, OSError) as failure:
            yield LeftOut(title, str(failure))


if __name__ == "__main__":
    sys.exit(main())
