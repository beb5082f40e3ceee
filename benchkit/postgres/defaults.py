"""Defaults that changed from version to version, and what to set so that builds are alike.

Only what can move a measurement. Where a version does not have a setting yet (or no longer),
`absent` says what its servers do: they cannot be told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchkit.postgres.builds import Build
from benchkit.postgres.versions import Version


@dataclass(frozen=True, kw_only=True)
class Default:
    """The default of one setting over the versions.

    Attributes
    ----------
    since
        Version number -> the default from there on.
    same
        What all are set to where it differs.
    absent
        How servers without the setting behave.
    source
        Where this is said.
    """

    since: Mapping[int, str]
    same: str
    absent: str = ""
    source: str

    def of(self, version: Version) -> str:
        """Give the default of a version, or how it behaves without the setting."""
        known = [value for start, value in self.since.items() if start <= version.number]
        return known[-1] if known else self.absent


# shared_buffers and max_connections are what initdb writes where memory is not short.
DEFAULTS: Mapping[str, Default] = {
    "shared_buffers": Default(
        since={80200: "32MB", 90300: "128MB"}, same="128MB", source="initdb.c 9.3"
    ),
    "wal_buffers": Default(
        since={80200: "64kB", 90100: "1/32 of shared_buffers"},
        same="4MB",
        source="release notes 9.1",
    ),
    "max_wal_size": Default(
        since={80200: "144MB (3 checkpoint_segments)", 90500: "1GB"},
        same="1GB",
        source="release notes 9.5",
    ),
    "effective_cache_size": Default(
        since={80200: "128MB", 90400: "4GB"}, same="4GB", source="release notes 9.4"
    ),
    "default_statistics_target": Default(
        since={80200: "10", 80400: "100"}, same="100", source="release notes 8.4"
    ),
    "autovacuum": Default(since={80200: "off", 80300: "on"}, same="on", source="release notes 8.3"),
    "stats_start_collector": Default(
        since={80200: "on", 80300: ""}, same="on", source="8.2; track_counts from 8.3 on"
    ),
    "stats_row_level": Default(
        since={80200: "off", 80300: "on, as track_counts"}, same="on", source="release notes 8.3"
    ),
    "autovacuum_vacuum_cost_delay": Default(
        since={80200: "-1", 80300: "20ms", 120000: "2ms"},  # -1: vacuum_cost_delay
        same="2ms",
        source="release notes 8.3, 12",
    ),
    "autovacuum_vacuum_insert_threshold": Default(
        since={130000: "1000"}, same="-1", absent="-1", source="release notes 13"
    ),
    "checkpoint_completion_target": Default(
        since={80300: "0.5", 140000: "0.9"},
        same="0.9",
        absent="0",
        source="release notes 8.3, 14",
    ),
    "bgwriter_lru_maxpages": Default(
        since={80200: "5", 80300: "100"}, same="100", source="release notes 8.3"
    ),
    "wal_sync_method": Default(
        since={80200: "fdatasync or open_datasync", 90100: "fdatasync"},
        same="fdatasync",
        source="release notes 9.0.2 and of the minor versions of its time, on Linux",
    ),
    "checkpoint_flush_after": Default(
        since={90600: "256kB"}, same="0", absent="0", source="release notes 9.6, on Linux"
    ),
    "bgwriter_flush_after": Default(
        since={90600: "512kB"}, same="0", absent="0", source="release notes 9.6, on Linux"
    ),
    "wal_level": Default(
        since={90000: "minimal", 100000: "replica"},
        same="minimal",
        absent="minimal",
        source="release notes 9.0, 10",
    ),
    "max_wal_senders": Default(
        since={90000: "0", 100000: "10"}, same="0", absent="0", source="release notes 9.0, 10"
    ),
    "huge_pages": Default(
        since={90400: "try"}, same="off", absent="off", source="release notes 9.4"
    ),
    "max_parallel_workers_per_gather": Default(
        since={90600: "0", 100000: "2"}, same="0", absent="0", source="release notes 9.6, 10"
    ),
    "jit": Default(
        since={110000: "off", 120000: "on"}, same="off", absent="off", source="release notes 12"
    ),
    "hash_mem_multiplier": Default(
        since={130000: "1", 150000: "2"}, same="1", absent="1", source="release notes 13, 15"
    ),
    "log_checkpoints": Default(
        since={80300: "off", 150000: "on"}, same="off", absent="off", source="release notes 15"
    ),
    "log_autovacuum_min_duration": Default(
        since={80300: "-1", 150000: "10min"}, same="-1", absent="-1", source="release notes 15"
    ),
    "vacuum_buffer_usage_limit": Default(
        since={160000: "256kB", 170000: "2MB"},
        same="256kB",
        absent="256kB",
        source="release notes 16, 17",
    ),
    "effective_io_concurrency": Default(
        since={80400: "1", 180000: "16"}, same="1", absent="1", source="release notes 8.4, 18"
    ),
    "maintenance_io_concurrency": Default(
        since={130000: "10", 180000: "16"}, same="10", absent="10", source="release notes 13, 18"
    ),
    "io_method": Default(
        since={180000: "worker"}, same="sync", absent="sync", source="release notes 18"
    ),
}


def common_value(name: str, builds: Iterable[Build]) -> str:
    """Give what to set for all: what a build without the setting does, if there is such a one."""
    default = DEFAULTS[name]
    lacking = any(build.version.number < min(default.since) for build in builds)
    return default.absent if lacking else default.same


def differing_defaults(builds: Iterable[Build]) -> dict[str, dict[str, str]]:
    """List the settings whose defaults differ between builds: name -> version -> default."""
    versions = {build.version.text: build.version for build in builds}
    found = {
        name: {text: default.of(version) for text, version in versions.items()}
        for name, default in DEFAULTS.items()
    }
    return {name: values for name, values in found.items() if len(set(values.values())) > 1}
