"""What stands in several places about a release is the same in all."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import yaml

import data_tools
from tests.docs.pages import ROOT


def test_one_version_everywhere() -> None:
    version = data_tools.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    headings = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [heading for heading in headings if heading[0] != "Unreleased"]
    assert headings[0] == ("Unreleased", "")
    assert cited["version"] == version and released[0] == (version, str(cited["date-released"]))
    assert f"/leadwise:{version}\n" in (ROOT / "docs" / "kubernetes.yaml").read_text()


def test_one_licence_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["license"] == cited["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


def test_an_editable_install_is_a_plain_path(tmp_path: Path) -> None:
    """Which comes before the folder of a clone that is called leadwise, in whose parent somebody works."""
    clone = tmp_path / "leadwise"
    for name in ("data_tools", "leadwise"):
        (clone / name).mkdir(parents=True)
    shutil.copy(ROOT / "data_tools" / "__init__.py", clone / "data_tools")
    (clone / "leadwise" / "__init__.py").touch()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    build = "from setuptools import build_meta; build_meta.build_editable('out')"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True)
    (wheel,) = (clone / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (path,) = (opened.read(name).decode() for name in opened.namelist() if name.endswith(".pth"))
        assert path.strip() == str(clone) and not [name for name in opened.namelist() if name.endswith(".py")]
