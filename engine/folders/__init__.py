"""What runs and datasets have left in their folders, as far as it can be read."""
