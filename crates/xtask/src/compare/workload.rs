//! Kinds of load, and the systems that receive it.

/// One kind of load. Each item of a call takes one number, unless the arguments say otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) enum Workload {
    /// `seqsvr bench` with these arguments.
    Bench(&'static str),
    /// `seqsvr bench` with these arguments, while 1,024 holders renew their workers.
    BenchBesideHolders(&'static str),
    /// `seqsvr bench` with these arguments, at half of its highest rate of calls.
    HalfPeak(&'static str),
    /// Unary calls of a gRPC service.
    Unary { system: GrpcSystem, in_flight: u32 },
    /// Frames of the baseline stream.
    Frames { numbers: u32 },
    /// INCR by redis-benchmark.
    Incr {
        system: RespSystem,
        clients: u32,
        pipeline: u32,
    },
    /// `GET /v1/next` by wrk.
    Get {
        system: HttpSystem,
        connections: u32,
    },
    /// `select nextval` by pgbench.
    Nextval { clients: u32 },
    /// `update … returning` of a user's row by pgbench.
    UpdateRow { clients: u32 },
}

/// A gRPC service that takes unary calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrpcSystem {
    /// The baseline tonic service.
    Baseline,
    Seqsvr,
    Etcd,
    Tsoracle,
}

/// A server of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpSystem {
    Seqsvr,
    /// The baseline axum service.
    Baseline,
}

/// A server of the Redis protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RespSystem {
    Seqsvr,
    /// The baseline loop over sockets.
    Baseline,
    /// Valkey, one thread, without persistence.
    Valkey,
    /// Valkey with two threads that read and write, without persistence.
    ValkeyThreads,
    /// Redis without persistence.
    Redis,
    /// Redis with an append-only file that it syncs before each response.
    RedisSynced,
}
