import pytest

from data_tools import headers
from data_tools.headers import parse


def test_both_styles_of_the_challenge_read_alike() -> None:
    old = parse("A0001 1 500 2500\nA0001.mat 16+24 1000/mV 16 0 7 -3 0 I\n#Age: 74\n#Sex: Male\n#Dx: 59118001\n")
    new = parse(
        "A0001 1 500 2500\nA0001.mat 16x1+24 1000.0(0)/mV 16 0 7 -3 0 I\n# Age: 74\n# Sex: Male\n# Dx: 59118001"
    )
    assert old == new
    line = new.signals[0]
    assert (line.file, line.format, line.samples_per_frame, line.skew, line.offset) == ("A0001.mat", 16, 1, 0, 24)
    assert (line.gain, line.baseline, line.unit, line.checksum, line.name) == (1000.0, 0, "mV", -3, "I")
    assert headers.fields(new.comments) == {"age": "74", "sex": "Male", "dx": "59118001"}


@pytest.mark.parametrize(
    ("record", "rate", "samples"),
    [
        ("E00001.mat 1 500 5000 05-May-2020 14:50:55", 500, 5000),  # on which wfdb 4.3.1 raises
        ("x 1 360.0 999", 360, 999),
        ("x 1 62.4725/999.56 14400", 62.4725, 14400),
        ("x 1 250(3) 0", 250, None),
        ("x 1 500", 500, None),
        ("x 1", headers.DEFAULT_RATE, None),
    ],
)
def test_record_lines(record: str, rate: float, samples: int | None) -> None:
    header = parse(f"# a comment before\n\n{record}\nx.dat 16\n")
    assert (header.rate, header.samples) == (rate, samples)


@pytest.mark.parametrize(
    ("fields", "gain", "baseline", "unit"),
    [
        ("16", 200.0, 0, "mV"),
        ("16 0", 200.0, 0, "mV"),  # WFDB: a gain of 0 is none
        ("212 200 11 1024 995 -22131 0 MLII", 200.0, 1024, "mV"),  # the ADC's zero, where no baseline is given
        ("16 200(5)/uV 11 1024 995 -22131 0 MLII", 200.0, 5, "uV"),
        ("16 1.052e+04(-161790)/mV", 10520.0, -161790, "mV"),
    ],
)
def test_gains(fields: str, gain: float, baseline: int, unit: str) -> None:
    line = parse(f"x 1 500 10\nx.dat {fields}\n").signals[0]
    assert (line.gain, line.baseline, line.unit) == (gain, baseline, unit)


def test_skew_frames_and_lead_names_with_spaces() -> None:
    line = parse("x 1 500 10\nx.dat 16x2:3+24 100/mV 16 0 1 2 0 ECG lead II\n").signals[0]
    assert (line.samples_per_frame, line.skew, line.offset, line.name) == (2, 3, 24, "ECG lead II")


def test_segments() -> None:
    header = parse("rec/3 2 125 4000\nlayout 0\n~ 1000\npart_1 3000\n")
    assert header.segments == ("layout", "~", "part_1")
    assert header.signals == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only comments\n",
        "x\n",
        "x 2 500 10\nx.dat 16\n",  # a signal line too few
        "JS01052 12 500 250000/mV 16 0 -34 549 0 I\n" + "x.mat 16\n" * 11,  # two lines fused
        "x 1 -500 10\nx.dat 16\n",
        "x 1 nan 10\nx.dat 16\n",
        "x 1 inf 10\nx.dat 16\n",
        "x 1 500 10\nx.dat sixteen\n",
        "x 1 500 10\nx.dat 16 1000/mV 16 0 0 eight 0 I\n",
        "\x00\xff\x00",
    ],
)
def test_malformed_headers_are_refused_without_naming_anything(text: str) -> None:
    with pytest.raises(ValueError, match=r"^header") as refusal:
        parse(text)
    assert "JS01052" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "years"), [("74", 74), ("0.5", 0), ("NaN", None), ("-1", None), ("300", 90), ("", None), ("Unknown", None)]
)
def test_age(text: str, years: int | None) -> None:
    assert headers.age(text) == years


def test_sex() -> None:
    assert [headers.sex(text) for text in ("Male", "F", "female", "Unknown", "", None)] == [
        "M",
        "F",
        "F",
        None,
        None,
        None,
    ]
