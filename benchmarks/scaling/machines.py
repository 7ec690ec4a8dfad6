"""Machines the model speaks of: every number with where it comes from. None of them was measured, but for those of the
loader and of data_tools.shard, which are replaced by this machine's when the benchmark runs."""

from benchmarks.scaling.model import Given, Parameters
from data_tools.writers import CROP_BYTES

_GOAL = 5600  # segments/s, DESIGN 4

H200_NODES = Parameters(
    segment_seconds=Given(1 / _GOAL, "assumption: the design's goal, 5,600 segments/s, half of the datasheet's FLOP/s"),
    micro_step_seconds=Given(1e-3, "assumption: kernels that few segments do not fill"),
    launch_seconds=Given(6e-3, "assumption: some 1,200 kernels, 5 us each, forward and backward, compiled"),
    update_seconds=Given(3e-3, "assumption: norm, overflow check and the host's waits of DeepSpeed"),
    parameter_seconds=Given(30 / 3.4e12, "assumption: AdamW moves 30 bytes a parameter at 70 % of 4.8 TB/s"),
    node_size=Given(8, "datasheet: HGX H200"),
    node_bandwidth=Given(360e9, "assumption: 80 % of NVLink 4's 450 GB/s each way (datasheet)"),
    node_latency=Given(5e-6, "assumption"),
    network_bandwidth=Given(40e9, "assumption: 80 % of 400 Gb/s (datasheet), a card for each GPU"),
    network_latency=Given(15e-6, "assumption"),
    pair_seconds=Given(1 / 24_900, "measured: `loader`, lead masks, two cores"),
    memory_bytes=Given(1e12, "assumption: half of 2 TB serves as page cache"),
    cache_bytes=Given(15e12, "assumption: four NVMe disks; data.cache_gb is 64 if nothing is said"),
    disk_bandwidth=Given(12e9, "assumption: four NVMe disks"),
    store_bandwidth=Given(2e9, "assumption: one node, from a store in the same region"),
    store_total=Given(50e9, "assumption: all nodes together"),
    host_bandwidth=Given(20e9, "assumption: PCIe 5, memory that is not pinned"),
    most_pairs=Given(512, "assumption: some 50 MB a segment, of 141 GB"),
    crops_per_recording=Given(94_525 / 87_663, "the paper's 189,051 segments of the six cohorts' 87,663 recordings"),
    crop_bytes=Given(CROP_BYTES, "the format: 5,000 x 12 int16, without the headers of tar"),
    shard_seconds=Given(1 / 2175, "measured: `shard`, one worker"),
)
