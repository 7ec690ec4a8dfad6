"""An artificial archive's physics: hearts, rhythms, classes, noise. Pure; `data_tools.synthesize` writes the files."""
