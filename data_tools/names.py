"""The names of format 1: its splits, and the views of each task."""

FORMAT = 1
SPLITS = ("train", "pretrain-valid", "diagnosis-valid", "diagnosis-test", "identification-test")
VIEWS = {
    "pretrain": ("pretrain", "pretrain-valid"),
    "diagnosis": ("diagnosis-train", "diagnosis-valid", "diagnosis-test"),
    "identification": (
        "identification-train",
        "identification-valid",
        "identification-gallery",
        "identification-probe",
    ),
}
# The splits whose crops each view may hold. What validates the pre-training is no held-out recording of diagnosis.
SPLITS_OF = {
    "pretrain": ("train",),
    "pretrain-valid": ("pretrain-valid",),
    "diagnosis-train": ("train", "pretrain-valid"),
    "diagnosis-valid": ("diagnosis-valid",),
    "diagnosis-test": ("diagnosis-test",),
    "identification-train": ("train",),
    "identification-valid": ("train",),
    "identification-gallery": ("identification-test",),
    "identification-probe": ("identification-test",),
}
