"""What is told about the machine."""

from __future__ import annotations

import platform
from dataclasses import replace

import torch

from treegraft.bench import machine


def test_the_processor_is_named_as_the_system_does(tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Fast 9000 @ 3 GHz\nflags\t\t: fpu\n")
    monkeypatch.setattr(machine, "CPU_INFO", info)
    assert machine.cpu_name() == "Fast 9000 @ 3 GHz"
    info.write_text("Processor\t: ARM\n")
    assert machine.cpu_name() == (platform.processor() or platform.machine())


def test_a_machine_is_busy_when_others_take_half_of_it():
    here = replace(machine.describe_machine(torch.device("cpu"), memory_kept=False), cores=4)
    assert here.threads == torch.get_num_threads()
    assert not here.memory_kept
    assert [replace(here, load=load).is_busy for load in (None, 0.5, 2.0, 2.5)] == [False, False, False, True]
