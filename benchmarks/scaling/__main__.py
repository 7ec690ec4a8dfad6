"""python -m benchmarks.scaling: the same as python -m benchmarks scaling"""

import argparse

from benchmarks.scaling import add_arguments, run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    add_arguments(parser)
    print(run(parser.parse_args()).read_text())
