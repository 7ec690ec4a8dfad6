import pytest
import torch
from torch import Tensor

from engine.model.encoder import Encoder, mean_over_time, valid_tokens
from engine.model.sizes import NO_DROPOUT, PRETRAINING, SIZES, Recipe
from tests.engine import draws

TINY = SIZES["tiny"]
RECIPES: tuple[Recipe, ...] = ("paper", "reference")


def encoder(recipe: Recipe = "paper") -> Encoder:
    torch.manual_seed(0)
    return Encoder(TINY, recipe, NO_DROPOUT)


def signal(segments: int, samples: int = 2500) -> Tensor:
    return draws.batch(segments, samples=samples)[:, 0]


def test_parameters_by_part() -> None:
    def count(recipe: Recipe) -> dict[str, int]:
        module = Encoder(SIZES["base"], recipe).to("meta")
        return {name: sum(p.numel() for p in part.parameters()) for name, part in module.named_children()}

    reference = count("reference")
    assert reference["layers"] == 85_054_464
    assert reference["positional"] == 4_719_488
    assert reference["convolutions"] == 12 * 2 * 256 + 3 * 512 * 256 + 2 * 256
    assert count("paper")["convolutions"] - reference["convolutions"] == 4 * 256 + 4 * 512 - 512  # biases and norms
    assert reference["projection"] == 256 * 768 + 768


@pytest.mark.parametrize("samples", [16, 17, 31, 32, 100, 2500, 2515, 5000])
@pytest.mark.parametrize("recipe", RECIPES)
def test_any_length_gives_a_token_for_every_16_samples(samples: int, recipe: Recipe) -> None:
    whole = samples // 16 * 16
    module, x = encoder(recipe).eval(), signal(2, samples)
    encoded = module(x)
    assert encoded.contexts.shape == (2, samples // 16, 128)
    if recipe == "paper":  # the reference's norm over time sees the rest, too
        torch.testing.assert_close(encoded.contexts, module(x[:, :whole]).contexts)


def test_convolutions_are_convolutions() -> None:
    """With kernel = stride = 2, in the weights' other layout."""
    stack, x = encoder().convolutions, signal(2, 2503)
    y = x.transpose(1, 2)
    for projection, norm in zip(stack.projections, stack.norms, strict=True):
        assert isinstance(projection, torch.nn.Linear)
        kernel = projection.weight.unflatten(1, (2, -1)).transpose(1, 2)
        y = torch.nn.functional.conv1d(y, kernel, projection.bias, stride=2)
        y = torch.nn.functional.gelu(norm(y.transpose(1, 2))).transpose(1, 2)
    torch.testing.assert_close(stack(x), y.transpose(1, 2), rtol=1e-4, atol=1e-5)


def test_instance_norm_is_torchs() -> None:
    norm = encoder("reference").convolutions.norms[0]
    x = torch.randn(2, 50, 64)
    torch.testing.assert_close(norm(x), torch.nn.GroupNorm(64, 64)(x.transpose(1, 2)).transpose(1, 2))


def test_padding_changes_nothing() -> None:
    """In recipe `paper`: each segment of the batch is what it is alone."""
    module, lengths = encoder().eval(), torch.tensor([2500, 1900, 47, 2000])
    x = signal(4)
    x *= (torch.arange(2500) < lengths.unsqueeze(1)).unsqueeze(-1)
    encoded = module(x, lengths=lengths)
    pooled = mean_over_time(encoded.contexts, valid_tokens(lengths, 156, TINY))
    for row, length in enumerate(lengths.tolist()):
        alone = module(x[row : row + 1, :length]).contexts
        torch.testing.assert_close(encoded.contexts[row, : length // 16], alone[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(pooled[row], mean_over_time(alone)[0], rtol=1e-5, atol=1e-5)


def test_masked_tokens_are_not_seen() -> None:
    """Whatever they hold: the contexts do not change, the features do."""
    module, x = encoder().eval(), signal(2)
    masked = torch.zeros(2, 156, dtype=torch.bool)
    masked[:, 40:50] = True
    before = module(x, masked)
    x[:, 640:800] += 3
    after = module(x, masked)
    assert torch.equal(before.contexts, after.contexts)
    assert not torch.equal(before.features, after.features)
    assert not torch.equal(module(x).contexts, after.contexts)


@pytest.mark.parametrize("leads", [(0,), (0, 1), (0, 1, 7)])
def test_absent_leads_are_zeros(leads: tuple[int, ...]) -> None:
    """Their weights have no part in it and get no gradient."""
    module, x = encoder(), torch.zeros(2, 2500, 12)
    x[:, :, leads] = signal(2)[:, :, leads]
    module(x).contexts.square().sum().backward()
    first = module.convolutions.projections[0]
    gradient = first.weight.grad.view(-1, 2, 12).abs().amax((0, 1))
    assert [lead for lead in range(12) if gradient[lead] > 0] == list(leads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", ["zero", "constant", "rail"])
def test_finite(kind: str, recipe: Recipe, dtype: torch.dtype) -> None:
    """All leads masked, no variance, and the rails of the converter, +-32 mV."""
    made = {
        "zero": torch.zeros(2, 2500, 12),
        "constant": torch.full((2, 2500, 12), 0.7),
        "rail": 32.767 * signal(2).sign(),
    }
    module = Encoder(TINY, recipe, PRETRAINING).to(dtype)
    encoded = module(made[kind], feature_gradient=0.1)
    (encoded.contexts.float().square().mean() + encoded.convolved.float().square().mean()).backward()
    assert all(tensor.isfinite().all() for tensor in encoded)
    assert all(p.grad is None or p.grad.isfinite().all() for p in module.parameters())


def test_half_precision_input_is_cast_to_the_weights() -> None:
    module, x = encoder().eval(), signal(1).half()
    assert torch.equal(module(x).contexts, module(x.float()).contexts)
    assert module.bfloat16()(x).contexts.dtype == torch.bfloat16


def test_a_share_of_the_gradient_reaches_the_convolutions() -> None:
    gradients = []
    for share in (1.0, 0.1):
        module = encoder()
        module(signal(2), feature_gradient=share).contexts[:, ::3].sum().backward()
        gradients.append((module.convolutions.projections[0].weight.grad, module.projection.weight.grad))
    torch.testing.assert_close(gradients[1][0], 0.1 * gradients[0][0])
    torch.testing.assert_close(gradients[1][1], gradients[0][1])
