"""What a machine is called, so that times of different ones never meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import fingerprint

X86 = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: A Processor @ 2.00GHz\nflags : fpu\n"
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (X86, "A Processor @ 2.00GHz"),
        (ARM, "CPU implementer 0x41, part 0xd0c"),
        (ARM + "CPU implementer\t: 0x42\nCPU part\t: 0x1\n", "CPU implementer 0x41, part 0xd0c"),
    ],
)
def test_processor_has_a_name(text: str, name: str, tmp_path: Path) -> None:
    """A processor is called by its name, or by maker and part where the kernel knows no name."""
    (tmp_path / "cpuinfo").write_text(text)
    assert fingerprint._processor(tmp_path / "cpuinfo") == name


def test_a_processor_without_a_name_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is told it is None, not an empty text that equals another machine's."""
    monkeypatch.setattr("platform.processor", lambda: "")
    assert fingerprint._processor(tmp_path / "none") is None
