"""What stands in several places about a release is the same in all."""

import re
import tomllib

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
