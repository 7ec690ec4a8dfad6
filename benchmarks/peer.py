"""`transformers`' Wav2Vec2ForPreTraining at Leadwise's sizes, with 12 leads for its first convolution."""

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Wav2Vec2Config, Wav2Vec2ForPreTraining

from engine.model.masking import TimeMask
from engine.model.sizes import Sizes

_NEGATIVES = 100


class Peer(nn.Module):
    """W2V alone: it has no global objective."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.model = Wav2Vec2ForPreTraining(_config(sizes))
        extractor = self.model.wav2vec2.feature_extractor
        extractor.conv_layers[0].conv = nn.Conv1d(sizes.leads, sizes.conv_dim, 2, 2)
        extractor.forward = MethodType(_without_a_new_axis, extractor)  # type: ignore[method-assign]

    def forward(self, batch: Tensor, mask: TimeMask, negatives: Tensor) -> Tensor:
        """`batch` [pairs, 2, samples, leads]; `negatives` [segments, tokens, 100], indices of tokens; -> its loss."""
        signal = batch.flatten(0, 1).transpose(1, 2).to(self.model.dtype)
        loss: Tensor = self.model(signal, mask_time_indices=mask.masked, sampled_negative_indices=negatives).loss
        return loss / mask.weights.sum()


def negatives(mask: TimeMask) -> Tensor:
    """Drawn beforehand, as its training scripts do, outside what is timed: other masked tokens of the segment."""
    segments, tokens = mask.masked.shape
    drawn = torch.zeros(segments, tokens, _NEGATIVES, dtype=torch.int64)
    for segment in range(segments):
        hidden = mask.masked[segment].nonzero().flatten()
        picked = torch.randint(0, len(hidden) - 1, (len(hidden), _NEGATIVES))
        picked += picked >= torch.arange(len(hidden)).unsqueeze(1)
        drawn[segment, hidden] = hidden[picked]
    return drawn + tokens * torch.arange(segments).view(-1, 1, 1)


def _config(sizes: Sizes) -> Wav2Vec2Config:
    return Wav2Vec2Config(
        hidden_size=sizes.dim,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.feedforward,
        conv_dim=(sizes.conv_dim,) * sizes.conv_blocks,
        conv_kernel=(2,) * sizes.conv_blocks,
        conv_stride=(2,) * sizes.conv_blocks,
        conv_bias=True,
        feat_extract_norm="layer",
        num_conv_pos_embeddings=sizes.position_taps,
        num_conv_pos_embedding_groups=sizes.position_groups,
        num_codevectors_per_group=sizes.codes,
        num_codevector_groups=sizes.code_groups,
        codevector_dim=sizes.contrast_dim,
        proj_codevector_dim=sizes.contrast_dim,
        num_negatives=_NEGATIVES,
        activation_dropout=0.0,
        feat_proj_dropout=0.1,
        feat_quantizer_dropout=0.1,
        layerdrop=0.0,
    )


def _without_a_new_axis(self: Any, signal: Tensor) -> Tensor:
    """Its own adds an axis of one channel, for sound."""
    for layer in self.conv_layers:
        signal = layer(signal)
    return signal
