"""From dataset folders to augmented batches on the device, each sample a function of (seed, position)."""
