//! INCR by redis-benchmark, sent to the Redis endpoint and to other servers of its protocol.

use super::super::workload::{RespSystem, Workload};
use super::{Case, Target};

/// INCR of 1 million keys by 50 clients.
const fn incr(system: RespSystem, pipeline: u32) -> Workload {
    Workload::Incr {
        system,
        clients: 50,
        pipeline,
    }
}

const fn incr_case(
    name: &'static str,
    about: &'static str,
    other: RespSystem,
    pipeline: u32,
    targets: &'static [Target],
) -> Case {
    Case {
        name,
        about,
        workload: incr(RespSystem::Seqsvr, pipeline),
        reference: Some(incr(other, pipeline)),
        preparation: None,
        targets,
    }
}

/// Cases of the Redis protocol.
pub(super) const CASES: &[Case] = &[
    incr_case(
        "resp",
        "INCR by redis-benchmark, 50 clients; baseline loop of the Redis protocol",
        RespSystem::Baseline,
        1,
        &[Target::RatioMin(0.9)],
    ),
    incr_case(
        "resp-valkey",
        "INCR by redis-benchmark, 50 clients; Valkey 9.1, one thread",
        RespSystem::Valkey,
        1,
        &[],
    ),
    incr_case(
        "resp-valkey-16",
        "INCR in pipelines of 16; Valkey 9.1, one thread",
        RespSystem::Valkey,
        16,
        &[],
    ),
    incr_case(
        "resp-valkey-100",
        "INCR in pipelines of 100; Valkey 9.1, one thread",
        RespSystem::Valkey,
        100,
        &[],
    ),
    incr_case(
        "resp-valkey-threads",
        "INCR by redis-benchmark, 50 clients; Valkey 9.1 with io-threads 2",
        RespSystem::ValkeyThreads,
        1,
        &[],
    ),
    incr_case(
        "resp-valkey-threads-16",
        "INCR in pipelines of 16; Valkey 9.1 with io-threads 2",
        RespSystem::ValkeyThreads,
        16,
        &[],
    ),
    incr_case(
        "resp-valkey-threads-100",
        "INCR in pipelines of 100; Valkey 9.1 with io-threads 2",
        RespSystem::ValkeyThreads,
        100,
        &[],
    ),
    incr_case(
        "resp-redis",
        "INCR by redis-benchmark, 50 clients; Redis without persistence",
        RespSystem::Redis,
        1,
        &[Target::RatioMin(0.9)],
    ),
    incr_case(
        "resp-redis-16",
        "INCR in pipelines of 16; Redis without persistence",
        RespSystem::Redis,
        16,
        &[Target::RatioMin(1.4)],
    ),
    incr_case(
        "resp-redis-100",
        "INCR in pipelines of 100; Redis without persistence",
        RespSystem::Redis,
        100,
        &[Target::RatioMin(2.2)],
    ),
    incr_case(
        "resp-synced",
        "INCR by redis-benchmark, 50 clients; Redis with appendfsync always",
        RespSystem::RedisSynced,
        1,
        &[Target::RatioMin(1.8)],
    ),
    incr_case(
        "resp-synced-16",
        "INCR in pipelines of 16; Redis with appendfsync always",
        RespSystem::RedisSynced,
        16,
        &[Target::RatioMin(2.5)],
    ),
    incr_case(
        "resp-synced-100",
        "INCR in pipelines of 100; Redis with appendfsync always",
        RespSystem::RedisSynced,
        100,
        &[Target::RatioMin(3.0)],
    ),
];
