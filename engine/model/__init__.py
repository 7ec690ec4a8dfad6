"""The encoder, the quantizer, the time mask and the heads: plain torch."""
