//! Calls of gRPC, compared with the baseline services, with seqsvr itself and with Redis.

use std::time::Duration;

use super::super::workload::{GrpcSystem, RespSystem, Workload};
use super::{Case, NEXT_64, NEXT_1024, Target};

const MANY: &str = "--mode next-many --batch 100 --keys 10000000 --in-flight 256";
const LARGE: &str = "--mode next-many --batch 100 --keys 100000000 --in-flight 256";
const KEYED: &str = "--mode next-many --batch 100 --keys 10000000 --in-flight 256 --key-bytes 20";
const BASELINE_64: Workload = Workload::Unary {
    system: GrpcSystem::Baseline,
    in_flight: 64,
};

/// INCR with 1,024 calls in flight.
const fn pipelined_incr(system: RespSystem) -> Workload {
    Workload::Incr {
        system,
        clients: 16,
        pipeline: 64,
    }
}

/// Cases of gRPC.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "next-many",
        about: "100 uids per call, of 10 million; baseline stream, 100 numbers per frame",
        workload: Workload::Bench(MANY),
        reference: Some(Workload::Frames { numbers: 100 }),
        preparation: None,
        targets: &[Target::RateMin(15e6), Target::RatioMin(0.45)],
    },
    Case {
        name: "pipe",
        about: "next-many without the SDK, one frame per call; baseline stream, 100 numbers per frame",
        workload: Workload::Bench("--mode pipe --batch 100 --keys 10000000 --in-flight 128"),
        reference: Some(Workload::Frames { numbers: 100 }),
        preparation: None,
        targets: &[Target::RateMin(15e6), Target::RatioMin(0.45)],
    },
    Case {
        name: "next-1024",
        about: "one number per call, 1,024 in flight; baseline unary calls, 1,024 in flight",
        workload: NEXT_1024,
        reference: Some(Workload::Unary {
            system: GrpcSystem::Baseline,
            in_flight: 1_024,
        }),
        preparation: None,
        targets: &[Target::RateMin(2.5e6), Target::RatioMin(30.0)],
    },
    Case {
        name: "next-64",
        about: "one number per call, 64 in flight; baseline unary calls, 64 in flight",
        workload: NEXT_64,
        reference: Some(BASELINE_64),
        preparation: None,
        targets: &[Target::RateMin(0.5e6)],
    },
    Case {
        name: "unary",
        about: "unary Next without the SDK, 64 in flight; baseline unary calls of the same messages",
        workload: Workload::Unary {
            system: GrpcSystem::Seqsvr,
            in_flight: 64,
        },
        reference: Some(BASELINE_64),
        preparation: None,
        targets: &[Target::RatioMin(0.9)],
    },
    Case {
        name: "hot",
        about: "one uid, 1,024 callers; next-1024",
        workload: Workload::Bench("--in-flight 1024 --distribution hot"),
        reference: Some(NEXT_1024),
        preparation: None,
        targets: &[Target::RatioMin(0.8)],
    },
    Case {
        name: "large",
        about: "next-many of 100 million touched uids; next-many of 1 million",
        workload: Workload::Bench(LARGE),
        reference: Some(Workload::Bench(
            "--mode next-many --batch 100 --keys 1000000 --in-flight 256",
        )),
        preparation: Some((LARGE, Duration::from_secs(60))),
        targets: &[Target::RatioMin(0.6), Target::BytesPerKeyMax(5.0)],
    },
    Case {
        name: "keyed",
        about: "next-many of 10 million touched keys of 20 bytes; next-many of 10 million uids",
        workload: Workload::Bench(KEYED),
        reference: Some(Workload::Bench(MANY)),
        preparation: Some((KEYED, Duration::from_secs(40))),
        targets: &[Target::RatioMin(0.4)],
    },
    Case {
        name: "refill",
        about: "unary Next at half of the peak, 40 numbers per call, 8 uids with one section each, step 10,000; uids of one section whose step does not end",
        workload: Workload::HalfPeak("--unary --count 40 --keys 8 --namespace pinned"),
        reference: Some(Workload::HalfPeak(
            "--unary --count 40 --keys 8 --namespace default",
        )),
        preparation: None,
        targets: &[
            Target::TailRatioMax(1.2),
            Target::RaiseRateMin(50.0),
            Target::NoRefillWait,
        ],
    },
    Case {
        name: "ids",
        about: "1,000 ids per call, each verified; baseline stream, 1,000 numbers per frame",
        workload: Workload::Bench("--mode ids --batch 1000 --in-flight 64"),
        reference: Some(Workload::Frames { numbers: 1_000 }),
        preparation: None,
        targets: &[Target::RateMin(20e6), Target::RatioMin(0.5)],
    },
    Case {
        name: "id-1024",
        about: "one id per call, 1,024 in flight; next-1024",
        workload: Workload::Bench("--mode ids --in-flight 1024"),
        reference: Some(NEXT_1024),
        preparation: None,
        targets: &[Target::RatioMin(0.9)],
    },
    Case {
        name: "next-many-held",
        about: "next-many while 1,024 holders renew their workers; next-many",
        workload: Workload::BenchBesideHolders(MANY),
        reference: Some(Workload::Bench(MANY)),
        preparation: None,
        targets: &[Target::RatioMin(0.95)],
    },
    Case {
        name: "next-1024-held",
        about: "next-1024 while 1,024 holders renew their workers; next-1024",
        workload: Workload::BenchBesideHolders("--in-flight 1024"),
        reference: Some(NEXT_1024),
        preparation: None,
        targets: &[Target::RatioMin(0.95)],
    },
    Case {
        name: "redis-synced",
        about: "next-1024; Redis INCR with appendfsync always, 1,024 in flight in pipelines of 64",
        workload: NEXT_1024,
        reference: Some(pipelined_incr(RespSystem::RedisSynced)),
        preparation: None,
        targets: &[Target::RatioMin(3.0)],
    },
    Case {
        name: "redis",
        about: "next-1024; Redis INCR without persistence, 1,024 in flight in pipelines of 64",
        workload: NEXT_1024,
        reference: Some(pipelined_incr(RespSystem::Redis)),
        preparation: None,
        targets: &[],
    },
];
