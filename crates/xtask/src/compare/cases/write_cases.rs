//! Durable writes of seqsvr under loads that raise many sections.

use std::time::Duration;

use super::super::workload::Workload;
use super::{Case, Target};

const ZIPF: &str =
    "--mode next-many --batch 100 --keys 10000000 --in-flight 256 --distribution zipf";

const fn raise_case(name: &'static str, about: &'static str, args: &'static str) -> Case {
    Case {
        name,
        about,
        workload: Workload::Bench(args),
        reference: None,
        preparation: None,
        targets: &[],
    }
}

/// Cases of durable writes.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "zipf",
        about: "writes under next-many of 10 million uids by Zipf's law",
        workload: Workload::Bench(ZIPF),
        reference: None,
        preparation: Some((ZIPF, Duration::from_secs(10))),
        targets: &[Target::NumbersPerRaiseMin(5_000.0)],
    },
    Case {
        targets: &[Target::RaisesPerSyncMin(20.0)],
        ..raise_case(
            "hot-sections",
            "writes for 10,000 hot sections, raised 10 numbers at a time",
            "--mode next-many --batch 100 --keys 10000 --in-flight 256 --namespace tens --warm-up 10s",
        )
    },
    raise_case(
        "raises-1",
        "rate of raises of one section, 10 numbers at a time",
        "--keys 1 --in-flight 64 --namespace tens --warm-up 3s",
    ),
    raise_case(
        "raises-100",
        "rate of raises of 100 sections, 10 numbers at a time",
        "--keys 100 --in-flight 1024 --namespace tens --warm-up 3s",
    ),
    raise_case(
        "raises-42950",
        "rate of raises of 42,950 sections, 10 numbers at a time",
        "--mode next-many --batch 100 --keys 42950 --in-flight 256 --namespace tens --warm-up 20s",
    ),
];
