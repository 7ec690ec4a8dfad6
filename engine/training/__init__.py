"""The loop and all around it: the only place that knows DeepSpeed."""
