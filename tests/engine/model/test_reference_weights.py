import pytest
import torch
from torch import Tensor

from engine.learner import Learner
from engine.methods import SYSTEMS
from engine.model.encoder import Encoder
from engine.model.heads import DiagnosisHead, IdentificationHead
from engine.model.reference_weights import from_reference, sizes_in
from engine.model.sizes import SIZES, Sizes
from engine.released import of_encoder

SMALL = Sizes(
    conv_dim=6, dim=16, layers=2, heads=2, feedforward=24, position_taps=8, position_groups=4, codes=5, contrast_dim=8
)


def reference_state(sizes: Sizes) -> dict[str, Tensor]:
    """As METHOD part B, 2.8 lists it, each number another one."""
    conv, dim, inner = sizes.conv_dim, sizes.dim, sizes.feedforward
    all_codes = sizes.code_groups * sizes.codes
    shapes: dict[str, tuple[int, ...]] = {"mask_emb": (dim,)}

    def linear(name: str, inputs: int, outputs: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (outputs, inputs), (outputs,)

    def norm(name: str, width: int) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (width,)

    for block in range(4):
        shapes[f"feature_extractor.conv_layers.{block}.0.weight"] = (conv, conv if block else 12, 2)
    norm("feature_extractor.conv_layers.0.2", conv)
    norm("layer_norm", conv)
    linear("post_extract_proj", conv, dim)
    positional = "conv_pos.pos_conv.0"
    shapes[f"{positional}.bias"] = (dim,)
    shapes[f"{positional}.parametrizations.weight.original0"] = (1, 1, sizes.position_taps)
    direction = (dim, dim // sizes.position_groups, sizes.position_taps)
    shapes[f"{positional}.parametrizations.weight.original1"] = direction
    norm("encoder.layer_norm", dim)
    for number in range(sizes.layers):
        layer = f"encoder.layers.{number}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(f"{layer}.self_attn.{part}", dim, dim)
        norm(f"{layer}.self_attn_layer_norm", dim)
        linear(f"{layer}.fc1", dim, inner)
        linear(f"{layer}.fc2", inner, dim)
        norm(f"{layer}.final_layer_norm", dim)
    shapes["quantizer.vars"] = (1, all_codes, sizes.contrast_dim // sizes.code_groups)
    linear("quantizer.weight_proj", conv, all_codes)
    linear("project_q", sizes.contrast_dim, sizes.contrast_dim)
    linear("final_proj", dim, sizes.contrast_dim)
    counter = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=counter) for name, shape in shapes.items()}


def test_fills_a_learner_and_loses_nothing() -> None:
    state = reference_state(SMALL)
    ours = from_reference(state, SMALL)
    Learner(SYSTEMS["w2v_cmsc"], SMALL, "reference").load_state_dict(ours)
    assert sum(t.numel() for t in ours.values()) == sum(t.numel() for t in state.values())
    assert {float(t.sum()) for t in ours.values()} != {0.0}


def test_full_size_has_the_references_parameters() -> None:
    assert sum(tensor.numel() for tensor in reference_state(SIZES["base"]).values()) == 90_883_072
    from_reference(reference_state(SIZES["base"]), SIZES["base"])


def test_the_older_spelling_of_weight_norm() -> None:
    state = reference_state(SMALL)
    older = {
        name.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        ): tensor
        for name, tensor in state.items()
    }
    assert older.keys() != state.keys()
    ours, from_older = from_reference(state, SMALL), from_reference(older, SMALL)
    assert ours.keys() == from_older.keys()
    assert all(torch.equal(from_older[name], tensor) for name, tensor in ours.items())


@pytest.mark.parametrize("with_pretraining_parts", [True, False])
@pytest.mark.parametrize("task", ["diagnosis", "identification"])
def test_fine_tuned_models(task: str, with_pretraining_parts: bool) -> None:
    plain = reference_state(SMALL)
    only = ("quantizer", "project_q", "final_proj")
    state = {f"encoder.{n}": t for n, t in plain.items() if with_pretraining_parts or not n.startswith(only)}
    head: DiagnosisHead | IdentificationHead
    if task == "diagnosis":
        head = DiagnosisHead(SMALL.dim, 3)
        state |= {"proj.weight": torch.randn(3, SMALL.dim), "proj.bias": torch.randn(3)}
    else:
        head = IdentificationHead(SMALL.dim, 4)
        state["kernel"] = torch.randn(4, SMALL.dim)
    ours = from_reference(state, SMALL)
    Encoder(SMALL, "reference").load_state_dict(of_encoder(ours))
    head.load_state_dict({n.removeprefix("head."): t for n, t in ours.items() if n.startswith("head.")})
    assert torch.equal(ours["encoder.mask_embedding"], plain["mask_emb"])


def test_every_fault_is_listed() -> None:
    state = reference_state(SMALL)
    del state["mask_emb"], state["quantizer.vars"]
    state["encoder.layers.2.fc1.weight"] = torch.zeros(24, 16)
    state["encoder.layers.0.fc1.bias"] = torch.zeros(25)
    with pytest.raises(ValueError) as error:
        from_reference(state, SMALL)
    assert str(error.value).splitlines()[1:] == [
        "missing: mask_emb [16]",
        "missing: quantizer.vars [1, 10, 4]",
        "extra: encoder.layers.2.fc1.weight [24, 16]",
        "misshapen: encoder.layers.0.fc1.bias [25], should be [24]",
    ]


def test_weights_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"misshapen: post_extract_proj.weight \[16, 6\], should be \[128, 64\]"):
        from_reference(reference_state(SMALL), SIZES["tiny"])


@pytest.mark.parametrize("sizes", [SMALL, SIZES["tiny"]], ids=["small", "tiny"])
def test_sizes_are_in_the_shapes(sizes: Sizes) -> None:
    assert sizes_in(reference_state(sizes), sizes.heads) == sizes
    finetuned = {f"encoder.{name}": tensor for name, tensor in reference_state(sizes).items()}
    assert sizes_in(finetuned | {"kernel": torch.zeros(4, sizes.dim)}, sizes.heads) == sizes


def test_weights_of_another_model_have_no_sizes() -> None:
    state = reference_state(SMALL)
    state["encoder.layers.0.self_attn.W_Q.weight"] = torch.zeros(2)
    with pytest.raises(ValueError, match="before 2023"):
        sizes_in(state, 2)
    with pytest.raises(ValueError, match="not the weights of a reference model: 'feature_extractor"):
        sizes_in({"conv1.weight": torch.zeros(2)}, 2)
