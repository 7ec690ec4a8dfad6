import pytest
import torch

from engine.model.attention import Layer, SelfAttention, _explicit, _fused
from engine.model.sizes import NO_DROPOUT, SIZES, Dropout


@pytest.mark.parametrize("padded", [False, True])
def test_explicit_is_fused(padded: bool) -> None:
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 9, 8, generator=random, dtype=torch.float64)
    seen = (torch.arange(9) < torch.tensor([[9], [5]]))[:, None, None] if padded else None
    found = _explicit(q, k, v, seen, 0.0)
    torch.testing.assert_close(found, _fused(q, k, v, seen, 0.0), rtol=1e-12, atol=1e-12)


def test_explicit_in_bfloat16_is_near_float64() -> None:
    """Its scores are rounded, which the fused kernel's are not: twice that one's error."""
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 4, 8, 156, 64, generator=random, dtype=torch.float64)
    exact = _fused(q, k, v, None, 0.0)
    low = [x.bfloat16() for x in (q, k, v)]
    errors = [float((f(*low, None, 0.0).double() - exact).norm() / exact.norm()) for f in (_explicit, _fused)]
    assert errors[1] < 0.01 and errors[0] < 0.02


def test_attention_drops_out() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(SIZES["tiny"], Dropout(0.0, 0.5, 0.0, 0.0, 0.0))
    x = torch.randn(2, 50, 128)
    assert not torch.equal(attention(x, None), attention(x, None))
    mean = torch.stack([attention(x, None) for _ in range(400)]).mean(0)
    attention.eval()
    assert float((mean - attention(x, None)).norm() / mean.norm()) < 0.2


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
