"""The same recording in the formats that others use. `microvolts`: [samples, leads], int16."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_tools.crops import LEADS

Signal = NDArray[np.int16]


def csv(path: Path, microvolts: Signal, leads: Sequence[str] = LEADS, rate: float = 500) -> None:
    times = np.arange(len(microvolts)) / rate
    head = ",".join(["time (s)", *(f"{lead} (mV)" for lead in leads)])
    table = np.column_stack([times, microvolts / 1000])
    np.savetxt(path, table, fmt=["%.6f", *["%.3f"] * len(leads)], delimiter=",", header=head, comments="")


def npy(path: Path, microvolts: Signal, leads: Sequence[str] = LEADS, rate: float = 500) -> None:
    """It says nothing of itself: a sidecar does."""
    np.save(path, microvolts.T.astype(np.float32) / 1000)
    names = ", ".join(f'"{lead}"' for lead in leads)
    path.with_name("recordings.json").write_text(f'{{"rate": {rate}, "unit": "mV", "leads": [{names}]}}')


def hdf5(path: Path, microvolts: Signal, leads: Sequence[str] = LEADS, rate: float = 500) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        data = file.create_dataset("ecg/signal", data=microvolts / 1000, compression="gzip")
        data.attrs["unit"] = "mV"
        file["ecg"].attrs["leads"] = list(leads)
        file.attrs["sampling_rate"] = rate


def matlab(path: Path, microvolts: Signal, leads: Sequence[str] = LEADS, rate: float = 500) -> None:
    from scipy.io import savemat

    names = np.array(list(leads), object)
    content = {"data": microvolts.T / 1000, "age": 61, "sex": "Female"}
    savemat(path, {"ECG": content, "fs": rate, "units": "mV", "leads": names}, do_compression=True)


def edf(
    path: Path,
    microvolts: Signal,
    leads: Sequence[str] = LEADS,
    rate: float = 500,
    limits: tuple[float, float] = (-32768, 32767),
    more: Sequence[tuple[str, str, int]] = (),
) -> None:
    """EDF+ with annotations; `more`: label, unit and rate of further channels. Exact with the limits of 16 bits."""
    import pyedflib

    about = [(lead, "uV", int(rate)) for lead in leads] + list(more)
    with pyedflib.EdfWriter(str(path), len(about), pyedflib.FILETYPE_EDFPLUS) as file:
        file.setPatientName("Jane Doe")
        file.setPatientCode("MRN 12345")
        for index, (label, unit, channel_rate) in enumerate(about):
            file.setLabel(index, f"ECG {label}" if label in LEADS else label)
            file.setPhysicalDimension(index, unit)
            file.setSamplefrequency(index, channel_rate)
            file.setDigitalMinimum(index, -32768)
            file.setDigitalMaximum(index, 32767)
            file.setPhysicalMinimum(index, limits[0])
            file.setPhysicalMaximum(index, limits[1])
        seconds = len(microvolts) // int(rate)
        file.writeSamples(
            [column.astype(float) for column in microvolts.T] + [np.zeros(seconds * rate) for *_, rate in more]
        )
        file.writeAnnotation(1.0, -1, "Jane Doe woke up")


_NUMBERS = dict(zip(LEADS, (1, 2, 61, 62, 63, 64, 3, 4, 5, 6, 7, 8), strict=True))


def dicom(path: Path, microvolts: Signal, leads: Sequence[str] = LEADS, rate: float = 500, **changes: Any) -> None:
    """As an ECG cart exports it: the recording, and the beats that were averaged from it."""
    from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, TwelveLeadECGWaveformStorage, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = TwelveLeadECGWaveformStorage
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=["a"])
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset(str(path), {}, file_meta=meta, preamble=bytes(128))
    file.PatientName, file.PatientID, file.PatientAge, file.PatientSex = "Doe^Jane", "MRN 12345", "093Y", "F"
    file.AcquisitionDateTime = "20240229120000"
    file.WaveformSequence = [_group(microvolts, leads, rate, Dataset), _group(microvolts[:100], leads, rate, Dataset)]
    file.WaveformSequence[1].WaveformOriginality = "DERIVED"
    for name, value in changes.items():
        setattr(file.WaveformSequence[0], name, value)
    file.save_as(path, enforce_file_format=True)


def _group(microvolts: Signal, leads: Sequence[str], rate: float, new: Callable[[], Any]) -> Any:
    group = new()
    group.WaveformOriginality = "ORIGINAL"
    group.NumberOfWaveformChannels = len(leads)
    group.NumberOfWaveformSamples = len(microvolts)
    group.SamplingFrequency = rate
    group.WaveformBitsAllocated = 16
    group.WaveformSampleInterpretation = "SS"
    group.WaveformData = microvolts.astype("<i2").tobytes()
    group.ChannelDefinitionSequence = []
    for lead in leads:
        channel, source, unit = new(), new(), new()
        source.CodeValue, source.CodingSchemeDesignator = f"2:{_NUMBERS[lead]}", "MDC"
        source.CodeMeaning = f"Lead {lead}"
        unit.CodeValue, unit.CodingSchemeDesignator, unit.CodeMeaning = "uV", "UCUM", "microvolt"
        channel.ChannelSourceSequence = [source]
        channel.ChannelSensitivity = "1"
        channel.ChannelSensitivityUnitsSequence = [unit]
        channel.ChannelSensitivityCorrectionFactor = "1"
        channel.ChannelBaseline = "0"
        channel.WaveformBitsStored = 16
        group.ChannelDefinitionSequence.append(channel)
    return group


WRITERS: dict[str, Callable[..., None]] = {
    ".csv": csv,
    ".dcm": dicom,
    ".edf": edf,
    ".h5": hdf5,
    ".mat": matlab,
    ".npy": npy,
}
