import pytest
import torch

from engine.model.attention import Layer, SelfAttention, _explicit, _fused
from engine.model.sizes import NO_DROPOUT, SIZES


@pytest.mark.parametrize("padded", [False, True])
def test_explicit_is_fused(padded: bool) -> None:
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 9, 8, generator=random, dtype=torch.float64)
    seen = (torch.arange(9) < torch.tensor([[9], [5]]))[:, None, None] if padded else None
    found = _explicit(q, k, v, seen, 0.0)
    torch.testing.assert_close(found, _fused(q, k, v, seen, 0.0), rtol=1e-12, atol=1e-12)


def test_is_torchs_multi_head_attention() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(SIZES["tiny"], NO_DROPOUT)
    torchs = torch.nn.MultiheadAttention(128, 4, batch_first=True)
    torchs.load_state_dict(
        {
            "in_proj_weight": attention.qkv.weight,
            "in_proj_bias": attention.qkv.bias,
            "out_proj.weight": attention.out.weight,
            "out_proj.bias": attention.out.bias,
        }
    )
    x, keys = torch.randn(3, 11, 128), torch.arange(11) < torch.tensor([[11], [4], [7]])
    torch.testing.assert_close(attention(x, keys), torchs(x, x, x, key_padding_mask=~keys)[0], rtol=1e-5, atol=1e-6)


def test_layer_is_torchs_post_norm_layer() -> None:
    torch.manual_seed(0)
    layer = Layer(SIZES["tiny"], NO_DROPOUT)
    torchs = torch.nn.TransformerEncoderLayer(128, 4, 256, 0.0, "gelu", batch_first=True)
    names = {
        "self_attn.in_proj_": "attention.qkv.",
        "self_attn.out_proj.": "attention.out.",
        "linear1.": "expand.",
        "linear2.": "contract.",
        "norm1.": "attention_norm.",
        "norm2.": "norm.",
    }
    ours = layer.state_dict()
    torchs.load_state_dict(
        {f"{theirs}{end}": ours[f"{name}{end}"] for theirs, name in names.items() for end in ("weight", "bias")}
    )
    x = torch.randn(2, 10, 128)
    torch.testing.assert_close(layer(x), torchs(x), rtol=1e-5, atol=1e-5)
