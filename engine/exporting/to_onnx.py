"""An encoder as an ONNX file for any number of segments of any length, checked against torch."""

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.exporting.plain import PlainEncoder
from engine.model.encoder import Encoder, mean_over_time

TOLERANCE = 1e-4  # of outputs that are layer-normalised, of order 1
_SHAPES = ((1, 2500), (3, 2500), (2, 5000), (4, 1007))  # segments, samples
_LIMIT = 2 << 30  # bytes of one protobuf; beyond it the weights lie in a file beside


def check_installed() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as missing:
        raise ValueError(f"--onnx needs {missing.name}: pip install 'leadwise[onnx]'") from None


def write(encoder: Encoder, path: Path) -> float:
    """-> the largest difference from `encoder`'s own outputs; one beyond TOLERANCE is a ValueError."""
    plain = PlainEncoder(encoder).eval()
    segments, samples = (torch.export.Dim("segments"), torch.export.Dim("samples", min=encoder.sizes.patch))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # of operators that nobody asked for
        program = torch.onnx.export(
            plain,
            (torch.zeros(2, 2500, encoder.sizes.leads),),
            dynamo=True,
            input_names=["signal"],
            output_names=["embedding", "tokens"],
            dynamic_shapes=({0: segments, 1: samples},),
            verbose=False,
        )
    assert program is not None
    size = sum(parameter.numel() * parameter.element_size() for parameter in plain.parameters())
    program.save(path, external_data=size > 0.9 * _LIMIT)
    worst = max(_difference(encoder, path, shape) for shape in _SHAPES)
    if not worst <= TOLERANCE:
        raise ValueError(f"{path.name}: onnxruntime differs from torch by {worst:.2g}, more than {TOLERANCE:g}")
    return worst


def _difference(encoder: Encoder, path: Path, shape: tuple[int, int]) -> float:
    import onnxruntime

    session: Any = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    # As loud as an ECG, and a lead missing.
    signal = 0.5 * torch.randn(*shape, encoder.sizes.leads, generator=torch.Generator().manual_seed(sum(shape)))
    signal[..., -1] = 0
    embedding, tokens = session.run(["embedding", "tokens"], {"signal": signal.numpy()})
    with torch.inference_mode():
        contexts = encoder(signal).contexts
        pairs = ((tokens, contexts), (embedding, mean_over_time(contexts)))
    return max(float(np.abs(found - expected.numpy()).max()) for found, expected in pairs)
