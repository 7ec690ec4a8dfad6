"""The paper's four tables: a grid of runs, a queue that works it off, and pages with our figures beside the paper's."""
