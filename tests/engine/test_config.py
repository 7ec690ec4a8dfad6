from pathlib import Path

import pytest
import yaml

from engine import settings
from engine.config.common import accumulation, load
from engine.config.pretraining import PretrainConfig
from engine.data.chance import Augmentation
from engine.methods import SYSTEMS

CONFIGS = Path(__file__).parents[2] / "configs" / "pretrain"
NEEDED = ["data.path=DATA", "run.dir=RUN"]


def config(*given: str, file: str = "w2v_cmsc_rlm") -> PretrainConfig:
    return load(PretrainConfig, CONFIGS / f"{file}.yaml", [*NEEDED, *given])


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_file_holds_only_what_differs_from_the_defaults(path: Path) -> None:
    loaded = load(PretrainConfig, path, NEEDED)
    assert loaded.train.system in SYSTEMS
    default, given = settings.plain(PretrainConfig()), yaml.safe_load(path.read_text())
    for part, values in given.items():
        for key, value in values.items():
            assert default[part][key] != value or key == "system"


def test_the_files_are_the_rows_of_the_tables() -> None:
    """METHOD A1 and the paper's tables 3 and 4."""
    noise = Augmentation(powerline=0.5, emg=0.5, wander=0.5)
    rows = {
        "w2v": ("w2v", Augmentation()),
        "cmsc": ("cmsc", Augmentation()),
        "w2v_cmsc": ("w2v_cmsc", Augmentation()),
        "w2v_cmsc_rlm": ("w2v_cmsc_rlm", Augmentation(mask_leads=0.5)),
        "w2v_rlm": ("w2v", Augmentation(mask_leads=0.5)),
        "cmsc_rlm": ("cmsc", Augmentation(mask_leads=0.5)),
        "3kg": ("3kg", Augmentation(vectorcardiogram=True)),
        "simclr_rlm": ("simclr_rlm", Augmentation(mask_leads=0.5)),
        "w2v_cmsc_physio3": ("w2v_cmsc", noise),
        "w2v_cmsc_physio4": ("w2v_cmsc", Augmentation(powerline=0.5, emg=0.5, wander=0.5, shift=0.5)),
        "w2v_cmsc_rlm_physio3": (
            "w2v_cmsc_rlm",
            Augmentation(mask_leads=0.5, powerline=0.5, emg=0.5, wander=0.5),
        ),
        "w2v_cmsc_rlm_physio4": (
            "w2v_cmsc_rlm",
            Augmentation(mask_leads=0.5, powerline=0.5, emg=0.5, wander=0.5, shift=0.5),
        ),
    }
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == set(rows)
    for name, (system, augmentation) in rows.items():
        loaded = config(file=name)
        assert (loaded.train.system, loaded.augmentations()) == (system, augmentation)
        assert (loaded.train.batch, loaded.contrast_pool, loaded.train.lr) == (512, 512, 5e-5)


def test_values_become_what_they_are() -> None:
    loaded = config(
        "data.path=[A, B]", "data.weights=[1, 2.5]", "data.leads=[I, II]", "train.lr=1e-4", "train.clip=1",
        "model.sizes.layers=4", "train.micro_batch=16", "run.max_minutes=1.5",
        "deepspeed.zero_optimization.overlap_comm=true",
    )  # fmt: skip
    assert loaded.data.path == ("A", "B") and loaded.data.weights == (1.0, 2.5) and loaded.data.leads == ("I", "II")
    assert (loaded.train.lr, loaded.train.clip, loaded.train.micro_batch) == (1e-4, 1.0, 16)
    assert loaded.sizes.layers == 4 and loaded.run.max_minutes == 1.5
    assert loaded.deepspeed == {"zero_optimization": {"overlap_comm": True}}


def test_a_saved_config_is_read_again(tmp_path: Path) -> None:
    loaded = config("data.leads=[I, II]", "model.from=X", "model.dropout.residual=0", "model.sizes.dim=384")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings.plain(loaded)))
    assert load(PretrainConfig, tmp_path / "config.yaml", []) == loaded


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("train.lrr=1", r"^train.lrr: there is no such setting; did you mean train.lr\?$"),
        ("tain.lr=1", r"^tain: there is no such setting; did you mean train\?$"),
        ("model.dropout.resid=0", r"did you mean model.dropout.residual\?"),
        ("train.lr=fast", r"^train.lr = 'fast' should be a number$"),
        ("train.batch=1.5", r"^train.batch = 1.5 should be a whole number$"),
        ("train.batch=true", r"^train.batch = True should be a whole number$"),
        ("data.verify=1", r"^data.verify = 1 should be true or false$"),
        ("train.zero_stage=4", r"^train.zero_stage = 4 should be one of 0, 1, 2, 3$"),
        ("train.precision=bf8", r"^train.precision = 'bf8' should be one of bf16, fp16, fp32$"),
        ("train.micro_batch=all", r"^train.micro_batch = 'all' should be a whole number or auto$"),
        ("train=3", r"^train = 3 should be settings, such as train.batch$"),
        ("log.to=[tensorbord]", r"log.to = 'tensorbord' should be one of tensorboard, wandb, mlflow, trackio"),
        ("train.lr", r"^--set train.lr: write it as key=value$"),
        ("train.lr=[1", r"^--set train.lr=\[1: "),
        ("train.system.x=1", r"^--set train.system.x=1: system is a value and holds no settings$"),
        ("train.system=w2v_cmcs", r"^train.system = w2v_cmcs should be one of w2v, cmsc"),
        ("train.system=random_init", r"^train.system = random_init should be one of"),
        ("model.size=huge", r"^model.size = huge should be one of tiny, small, base$"),
        ("model.sizes.layer=3", r"^model.sizes.layer: there is no such size; did you mean model.sizes.layers\?$"),
        ("model.sizes.heads=5", r"^model.sizes: dim = 768 cannot be divided by heads = 5$"),
        ("data.leads=[I, V7]", r"^data.leads: there is no lead V7; there are I, II, III, V1"),
        ("data.leads=[I, I]", r"should be some of the twelve, each once"),
        ("data.leads=I", r"there is no RLM at one lead"),
        ("data.weights=[2]", r"^data.weights has no effect on a single dataset$"),
        ("data.cache_gb=3", r"have no effect on datasets of this machine"),
        ("augmentation.mask_leads=1", r"should be from 0 to below 1"),
        ("augmentation.emg=-1", r"^augmentation.emg = -1.0 is an amplitude in mV: 0 or more$"),
        ("train.batch=0", r"^train.batch = 0 should be more than 0$"),
        ("train.batch=500", r"500 pairs are no whole pools of train.contrast_pool = 512"),
        ("train.betas=[0.9]", r"should be two numbers"),
        ("data.path=[]", r"^data.path is missing"),
        ("run.dir=''", r"^run.dir is missing"),
    ],
)
def test_mistakes_are_one_line_that_names_the_key(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as failure:
        config(given)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("file", "given", "said"),
    [
        ("3kg", "data.leads=[I,II]", "needs all twelve data.leads"),
        ("3kg", "augmentation.mask_leads=0.5", "takes no augmentation.mask_leads"),
        ("3kg", "augmentation.emg=0.5", "takes no noise"),
        ("simclr_rlm", "augmentation.shift=0.5", "takes no noise"),
        ("simclr_rlm", "augmentation.mask_leads=0", "needs augmentation.mask_leads: without it its two views are one"),
        ("simclr_rlm", "data.leads=[II]", "^train.system = simclr_rlm needs more than one of data.leads"),
        ("cmsc", "model.dropout.features=0", "model.dropout.features has no effect on train.system = cmsc"),
        ("w2v", "train.zero_stage=0", "accumulates bf16 gradients wrongly in DeepSpeed"),
        (
            "w2v",
            "train.zero_stage=0 train.precision=fp32 train.offload=cpu",
            "train.offload has no effect with train.zero_stage = 0",
        ),
    ],
)
def test_settings_that_do_not_go_together(file: str, given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        config(*given.split(), file=file)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such config file"):
        load(PretrainConfig, tmp_path / "nothing.yaml", [])
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(ValueError, match="should hold settings"):
        load(PretrainConfig, tmp_path / "list.yaml", [])
    (tmp_path / "twice.yaml").write_text("train: {lr: 1}\ntrain: {lr: 2}\n")
    with pytest.raises(ValueError, match="train stands twice"):
        load(PretrainConfig, tmp_path / "twice.yaml", [])
    (tmp_path / "object.yaml").write_text("train: !!python/object/apply:os.system [true]")
    with pytest.raises(ValueError, match="could not determine a constructor"):
        load(PretrainConfig, tmp_path / "object.yaml", [])


@pytest.mark.parametrize(
    ("ranks", "given", "allowed"),
    [
        (1, [], [512]),
        (2, [], [256]),
        (8, [], [64]),
        (3, [], []),
        (4, ["train.batch=1024"], [128, 256]),  # one pool of four ranks, or two pools of two
        (1, ["train.batch=1024"], [512]),
        (2, ["model.recipe=reference"], [64]),  # a pool is what one rank holds
        (8, ["model.recipe=reference"], [64]),
        (16, ["model.recipe=reference"], []),
        (4, ["train.contrast_pool=8", "train.batch=16"], [2, 4]),
    ],
)
def test_micro_batches_make_whole_pools(ranks: int, given: list[str], allowed: list[int]) -> None:
    loaded = config(*given)
    assert loaded.micro_batches(ranks) == allowed
    for micro in allowed:
        steps = accumulation(loaded, micro, ranks)
        assert steps * micro * ranks == loaded.train.batch
    with pytest.raises(ValueError, match=r"train.micro_batch = 5 on \d+ ranks does not make whole pools.*it may be"):
        accumulation(loaded, 5, ranks)
