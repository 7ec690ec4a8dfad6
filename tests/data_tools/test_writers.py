import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from data_tools.writers import TarWriter, ZarrWriter, write_zarr_metadata
from tests.recordings import noise

CROPS = {"JS00001-0000": noise(1), "E00005-0000": noise(2, 2500), "A0001-0010": noise(3)}


def tar(folder: Path) -> tuple[Path, list[int], dict[str, str]]:
    writer = TarWriter(str(folder / "shard-000000"))
    offsets = [writer.add(key, signal, {"key": key}) for key, signal in CROPS.items()]
    return folder / "shard-000000.tar", offsets, writer.close()


def test_a_tar_is_what_tarfile_would_have_written(tmp_path: Path) -> None:
    path, _, _ = tar(tmp_path)
    expected = io.BytesIO()
    with tarfile.open(fileobj=expected, mode="w", format=tarfile.USTAR_FORMAT) as other:
        for key, signal in CROPS.items():
            npy = io.BytesIO()
            np.save(npy, signal)
            for name, data in (
                (f"{key}.npy", npy.getvalue()),
                (f"{key}.json", json.dumps({"key": key}, separators=(",", ":")).encode()),
            ):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                other.addfile(info, io.BytesIO(data))
    written = path.read_bytes()
    assert expected.getvalue().startswith(written) and written.endswith(bytes(1024))


def test_offsets_lead_to_the_samples(tmp_path: Path) -> None:
    path, offsets, _ = tar(tmp_path)
    for offset, signal in zip(offsets, CROPS.values(), strict=True):
        assert offset % 2 == 0
        assert (np.memmap(path, "<i2", "r", offset, signal.shape) == signal).all()


def test_hashes_are_those_of_the_files(tmp_path: Path) -> None:
    path, _, hashes = tar(tmp_path)
    assert hashes == {s: sha256(path.with_suffix(s).read_bytes()).hexdigest() for s in (".tar", ".idx")}


def test_zarr_reads_the_shards(tmp_path: Path) -> None:
    """Three crops in shards of two: the last shard has an empty slot."""
    import zarr

    crops = list(CROPS.values())
    for number in range(2):
        shard = tmp_path / "c" / str(number) / "0" / "0"
        shard.parent.mkdir(parents=True)
        writer = ZarrWriter(str(shard), crops_per_shard=2)
        for place, crop in enumerate(crops[2 * number : 2 * number + 2]):
            assert writer.add("key", crop, {}) == place * 120_000
        assert writer.close()[""] == sha256(shard.read_bytes()).hexdigest()
    write_zarr_metadata(tmp_path, crops=3, crops_per_shard=2)
    array = zarr.open_array(str(tmp_path), mode="r")
    assert array.shape == (3, 5000, 12) and array.dtype == np.int16
    for index, crop in enumerate(crops):
        stored = np.asarray(array[index])
        assert (stored[: len(crop)] == crop).all() and not stored[len(crop) :].any()


def test_webdataset_reads_the_tar(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    path, _, _ = tar(tmp_path)
    samples = list(webdataset.WebDataset(str(path), shardshuffle=False).decode())
    assert [sample["__key__"] for sample in samples] == list(CROPS)
    for sample, signal in zip(samples, CROPS.values(), strict=True):
        assert (sample["npy"] == signal).all() and sample["npy"].dtype == np.int16
        assert sample["json"] == {"key": sample["__key__"]}


def test_dali_reads_the_tar_by_its_index(tmp_path: Path) -> None:
    fn = pytest.importorskip("nvidia.dali.fn")
    from nvidia.dali import pipeline_def

    path, _, _ = tar(tmp_path)

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def pipeline():  # type: ignore[no-untyped-def]
        npy, text = fn.readers.webdataset(
            paths=[str(path)],
            index_paths=[str(path.with_suffix(".idx"))],
            ext=["npy", "json"],
            missing_component_behavior="error",
        )
        return fn.decoders.numpy(npy), text

    built = pipeline()
    built.build()
    arrays, texts = built.run()
    for index, (key, signal) in enumerate(CROPS.items()):
        assert (np.asarray(arrays[index]) == signal).all()
        assert json.loads(bytes(np.asarray(texts[index]))) == {"key": key}
