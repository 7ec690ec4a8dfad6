"""Encoders for others: the folder to hand on, its model card, ONNX, and weights that come from elsewhere."""
