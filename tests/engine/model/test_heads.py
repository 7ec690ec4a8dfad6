import torch

from engine.model.heads import DiagnosisHead, IdentificationHead


def test_identification_gives_cosines_whatever_the_lengths() -> None:
    torch.manual_seed(0)
    head = IdentificationHead(16, 5)
    pooled = torch.randn(3, 16)
    cosines = head(pooled)
    want = torch.cosine_similarity(pooled.unsqueeze(1), head.kernel.unsqueeze(0), dim=-1)
    torch.testing.assert_close(cosines, want)
    with torch.no_grad():
        head.kernel *= 3
    torch.testing.assert_close(head(7 * pooled), cosines)
    assert head(head.kernel).abs().max() <= 1
    assert head.bfloat16()(pooled.bfloat16()).dtype == torch.float32


def test_diagnosis_begins_without_a_bias() -> None:
    head = DiagnosisHead(768, 26)
    assert torch.equal(head(torch.zeros(2, 768)), torch.zeros(2, 26))
    bound = (6 / (768 + 26)) ** 0.5  # Xavier
    assert 0.95 * bound < float(head.weight.detach().abs().max()) <= bound
