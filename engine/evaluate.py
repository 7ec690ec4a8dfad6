"""python -m engine.evaluate --model TUNED --data DATA --task diagnosis|identification [--json OUT]"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine import command, hardware
from engine.evaluation import evaluate
from engine.scoring.leads import name_of
from engine.scoring.names import FIGURES, OF_CLASS, with_interval

_ABOUT = """Diagnosis: a fine-tuned model on diagnosis-test, segments and whole recordings, at the threshold 0.5
and at the one that is best on diagnosis-valid. Identification: any model; each probe is looked for in the gallery.
Intervals: 95 %, 1,000 resamples of the patients."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.evaluate", description=_ABOUT)
    parser.add_argument("--model", type=Path, required=True, help="a run, or a folder of model.safetensors")
    parser.add_argument("--data", nargs="+", required=True, help="dataset folders, or addresses of an object store")
    parser.add_argument("--task", choices=("diagnosis", "identification"), required=True)
    parser.add_argument("--leads", help="others than the model was trained with, as I,II,V2")
    parser.add_argument("--json", type=Path, metavar="OUT", help="all figures, for machines")
    return command.run(_evaluate, parser.parse_args())


def _evaluate(given: argparse.Namespace) -> int:
    if given.json:
        command.check_file("--json", given.json)
    leads = None if given.leads is None else [lead.strip() for lead in given.leads.split(",")]
    device = hardware.device()
    result = evaluate(given.model, given.data, given.task, leads=leads, device=device)
    if given.json:
        command.write(given.json, json.dumps(result, indent=1) + "\n")
    print("\n".join(lines(result)))
    return 0


def lines(result: dict[str, Any]) -> Iterator[str]:
    """As Markdown."""
    yield f"# {result['task'].capitalize()}, leads {name_of(result['leads'])}"
    trained = f"fine-tuned for {result['model']['task']}" if "task" in result["model"] else "only pre-trained"
    if not result["own_task"]:
        yield f"\n**Not fine-tuned for {result['task']}**: the encoder was {trained}."
    if not result["own_leads"]:
        leads = ", ".join(result["model"]["trained_leads"])
        yield f"\n**Not fine-tuned for these leads**: it was trained with {leads}. No figure for the paper's tables."
    if result["other_data"]:
        stages = "; ".join(result["other_data"])
        yield f"\nTrained on other data ({stages}): whether it has seen some of these recordings, only splits can tell."
    if result["task"] == "identification":
        yield f"\nGallery {result['gallery']:,}, probe {result['probe']:,} segments.\n"
        yield "| | |\n|---|---|"
        yield from (f"| {FIGURES[name]} | {with_interval(figure)} |" for name, figure in result["figures"].items())
        return
    segments, records = result["segments"], result["records"]
    yield f"\n| | {segments['count']:,} segments | {records['count']:,} recordings |\n|---|---|---|"
    for name, figure in segments["figures"].items():
        yield f"| {FIGURES[name]} | {with_interval(figure)} | {with_interval(records['figures'][name])} |"
    yield f"| tuned threshold | {segments['tuned_threshold']:.2f} | {records['tuned_threshold']:.2f} |"
    counts = ", ".join(f"{FIGURES[name]} {count}" for name, count in segments["defined_in_classes"].items())
    yield f"\nMeans over the classes in which a figure is defined; of {len(segments['classes'])}: {counts}."
    yield "By class, segments:\n"
    yield f"| class | positives | {' | '.join(FIGURES[name] for name in OF_CLASS)} |\n|---|---|---|---|---|---|"
    for name, of in segments["classes"].items():
        cells = [f"{of[figure]:.3f}" if of[figure] is not None else "-" for figure in OF_CLASS]
        yield f"| {name.replace('|', ' or ')} | {of['positives']} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
