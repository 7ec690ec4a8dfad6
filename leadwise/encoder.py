"""An encoder as others use it: millivolts in, vectors out."""

import os
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from data_tools.crops import LEADS
from engine import released
from engine.model import encoder as model
from engine.model.sizes import NO_DROPOUT, Sizes

try:  # optional: whoever has the hub's library gets from_pretrained, save_pretrained and push_to_hub of it
    from huggingface_hub import ModelCard, PyTorchModelHubMixin, snapshot_download
except ImportError:

    class PyTorchModelHubMixin:  # type: ignore[no-redef]
        """Nothing, where the hub's library is not installed."""


_FILES = ["config.json", "model.safetensors", "README.md"]
_OF_HEAD = ("task", "classes", "validation")  # what config.json says of a head, which an encoder has none of


class Encoder(nn.Module, PyTorchModelHubMixin):
    """An ECG encoder of Leadwise, without dropout and masks.

    What it takes: `signal` [segments, samples, 12], floating point, in millivolts, unfiltered, at 500 Hz, the leads in
    the order I II III aVR aVL aVF V1 V2 V3 V4 V5 V6. A lead that is absent, flat or damaged is all zeros. It was
    trained on segments of 2,500 samples (5 s); any number from 16 on will do. `lengths` [segments], in samples, says
    how much of each is signal where those of a batch differ; what lies behind is zeros, and neither seen nor averaged
    (with recipe `reference` it takes part as in fairseq-signals: batches of one length are better there).
    `leadwise.place` puts any subset of the leads in their places; `leadwise.segments` also brings other rates to
    500 Hz and cuts.

    What it gives: `encoder(signal)` [segments, dim], the mean over time, float32; `encoder.tokens(signal)`
    [segments, samples // 16, dim], a vector for each 32 ms, of which those behind `lengths` mean nothing. Vectors of
    several segments of one recording are averaged.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        """`config`: what config.json holds; fresh weights. `load_encoder` is what reads both."""
        super().__init__()
        self.config = {name: value for name, value in config.items() if name not in _OF_HEAD}
        self.encoder = model.Encoder(Sizes(**config["sizes"]), config["recipe"], NO_DROPOUT)
        self.card: str | None = None  # README.md of where it was read from
        self._hub_mixin_config = self.config  # what the hub's library writes as config.json

    @property
    def dim(self) -> int:
        """Of its vectors."""
        return self.encoder.sizes.dim

    @property
    def trained_leads(self) -> tuple[str, ...]:
        return tuple(self.config["trained_leads"])

    def forward(self, signal: Tensor, lengths: Tensor | None = None) -> Tensor:
        """[segments, samples, 12], [segments] -> [segments, dim]"""
        contexts = self._contexts(signal, lengths)
        valid = None if lengths is None else model.valid_tokens(lengths, contexts.shape[1], self.encoder.sizes)
        return model.mean_over_time(contexts, valid)

    def tokens(self, signal: Tensor, lengths: Tensor | None = None) -> Tensor:
        """[segments, samples, 12], [segments] -> [segments, tokens, dim]"""
        return self._contexts(signal, lengths).float()

    def _contexts(self, signal: Tensor, lengths: Tensor | None) -> Tensor:
        patch = self.encoder.sizes.patch
        if signal.ndim != 3 or signal.shape[2] != len(LEADS) or signal.shape[1] < patch:
            raise ValueError(
                f"signal should be [segments, samples, {len(LEADS)}], of {patch} samples or more; "
                f"found {list(signal.shape)} (leadwise.place, leadwise.segments)"
            )
        if not signal.is_floating_point():
            raise ValueError(f"signal should be floating point, in mV; found {signal.dtype}")
        if lengths is not None and (
            lengths.shape != signal.shape[:1] or lengths.min() < patch or lengths.max() > signal.shape[1]
        ):
            raise ValueError(f"lengths should be [{len(signal)}], each from {patch} to {signal.shape[1]} samples")
        encoded: model.Encoded = self.encoder(signal, lengths=lengths)
        return encoded.contexts

    # --- the hub's library: called by its from_pretrained and push_to_hub ---

    @classmethod
    def _from_pretrained(cls, *, model_id: str, map_location: str = "cpu", **options: Any) -> "Encoder":
        """Every weight is there, and finite, or it is an error: never a weight that nobody trained."""
        folder = model_id
        if not os.path.isdir(model_id):
            known = ("revision", "cache_dir", "force_download", "local_files_only", "token")
            found = {name: options[name] for name in known if name in options}
            folder = snapshot_download(model_id, allow_patterns=_FILES, **found)
        return load_encoder(folder).to(map_location)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> "ModelCard":
        return ModelCard(self.card) if self.card else super().generate_model_card(*args, **kwargs)


def load_encoder(folder: str | Path) -> Encoder:
    """The encoder of a folder that `python -m engine.export` wrote, or of a run, ready to use: `encoder(signal)`.

    ValueError says what is wrong with the folder.
    """
    found = released.find(Path(folder).expanduser(), "")
    config, weights = released.read(found)
    encoder = Encoder(config).eval()
    released.load_whole(encoder.encoder, released.of_encoder(weights), found)
    if (found / "README.md").is_file():
        encoder.card = (found / "README.md").read_text()
    return encoder
