"""What a run is: frozen dataclasses from a YAML file and `--set a.b=c`, and which settings go together."""
