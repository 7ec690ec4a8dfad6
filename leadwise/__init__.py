"""Leadwise encoders, to use: needs the core dependencies alone, and reads whatever `python -m engine.export` wrote.

import leadwise
import torch

encoder = leadwise.load_encoder("FOLDER")
signal = leadwise.segments(ecg, leads=["I", "II"], rate=250)  # of [samples, 2] in mV
with torch.inference_mode():
    vectors = encoder(signal)  # [segments, dim]
"""

from data_tools.crops import LEADS, RATE, SEGMENT
from leadwise.encoder import Encoder, load_encoder
from leadwise.signals import place, segments

__all__ = ["LEADS", "RATE", "SEGMENT", "Encoder", "load_encoder", "place", "segments"]
