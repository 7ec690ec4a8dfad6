"""DICOM waveforms: the ECG that was recorded, not the beats that were averaged from it."""

from typing import Any, BinaryIO

import numpy as np

from data_tools.crops import LEADS
from data_tools.formats.library import reading
from data_tools.formats.raw import Raw
from data_tools.physical import LEAD, Refusal, check_size, lead_name

# The numbers of the leads, which follow "2:" in MDC and "5.6.3-9-" in SCP-ECG.
_NUMBERS = {"1": "I", "2": "II", "61": "III", "62": "aVR", "63": "aVL", "64": "aVF"} | {
    str(2 + n): LEADS[5 + n] for n in range(1, 7)
}
_SCHEMES = {"MDC": "2:", "SCPECG": "5.6.3-9-"}
_DEFLATED = "1.2.840.10008.1.2.1.99"
_BIG_ENDIAN = "1.2.840.10008.1.2.2"


def read(file: BinaryIO, key: str | None) -> Raw:
    with reading("pydicom"):
        import pydicom

        found = pydicom.dcmread(file, stop_before_pixels=True, specific_tags=_TAGS)
        if found.file_meta.TransferSyntaxUID in (_DEFLATED, _BIG_ENDIAN):
            raise Refusal("deflated or big-endian DICOM; save it as explicit little endian")
        groups = [
            index
            for index, group in enumerate(found.get("WaveformSequence") or ())
            if group.get("WaveformOriginality", "ORIGINAL") == "ORIGINAL"
        ]
        if len(groups) != 1:
            raise Refusal("holds no recorded waveform" if not groups else "holds several recorded waveforms")
        group = found.WaveformSequence[groups[0]]
        channels = list(group.ChannelDefinitionSequence)
        check_size(int(group.NumberOfWaveformSamples) * int(group.NumberOfWaveformChannels) * 8)
        signal = found.waveform_array(groups[0])
        return Raw(
            np.where(_padding(found, groups[0], group), np.nan, signal),
            names=tuple(_name(channel) for channel in channels),
            units=tuple(_unit(channel) for channel in channels),
            rate=float(group.SamplingFrequency),
            comments={"age": _years(found.get("PatientAge")), "sex": str(found.get("PatientSex") or "")},
        )


_TAGS = ["TransferSyntaxUID", "WaveformSequence", "PatientAge", "PatientSex"]


def _padding(found: Any, index: int, group: Any) -> Any:
    """Where a sample is none; the value that says so is stored like one."""
    padding = group.get("WaveformPaddingValue")
    if padding is None:
        return False
    from pydicom.waveforms.numpy_handler import multiplex_array

    raw = multiplex_array(found, index, as_raw=True)
    if isinstance(padding, bytes):
        padding = np.frombuffer(padding, raw.dtype)[0]
    return raw == padding


def _name(channel: Any) -> str:
    for source in channel.get("ChannelSourceSequence") or ():
        prefix = _SCHEMES.get(str(source.get("CodingSchemeDesignator", "")))
        code = str(source.get("CodeValue", ""))
        if prefix and code.startswith(prefix) and code.removeprefix(prefix) in _NUMBERS:
            return _NUMBERS[code.removeprefix(prefix)]
        name = lead_name(str(source.get("CodeMeaning", "")))
        if name.upper() in LEAD:
            return name
    return lead_name(str(channel.get("ChannelLabel", "")))


def _unit(channel: Any) -> str | None:
    """None: a channel without sensitivity holds steps of unknown height."""
    units = channel.get("ChannelSensitivityUnitsSequence")
    if "ChannelSensitivity" not in channel or not units:
        return None
    return str(units[0].get("CodeValue", ""))


def _years(age: Any) -> str:
    """`042Y`; months, weeks and days are younger than a year or two."""
    text = str(age or "")
    return text[:-1] if text.endswith("Y") else "0" if text[-1:] in ("M", "W", "D") else ""
