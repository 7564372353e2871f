//! The rows: what is compared with what, and the bars that this project sets itself.

use std::time::Duration;

use super::workload::{Server, Service, Speaker, Work};

/// Ours, and what it is compared with.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) ours: Work,
    /// None: only what it writes is of interest.
    pub(super) theirs: Option<Work>,
    /// `seqsvr bench` with these arguments for so long, once, before all.
    pub(super) prepare: Option<(&'static str, Duration)>,
    pub(super) bars: &'static [Bar],
}

/// What shall hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bar {
    /// Numbers a second of ours, by theirs of the same round.
    Ratio(f64),
    /// Numbers a second of ours.
    Rate(f64),
    /// p99.9 of ours, by theirs of the same round, at most.
    Tail(f64),
    /// Raises a second of ours.
    Raises(f64),
    /// Numbers that a raise of ours was good for.
    EachRaise(f64),
    /// Raises of ours that a sync of a store's log was good for.
    EachSync(f64),
    /// Bytes of the AllocSvr for each of the keys of ours, at most.
    Bytes(f64),
    /// Calls of ours that waited for a refill: none.
    NoneWaited,
}

const MANY: Work = Work::Bench("--mode next-many --batch 100 --keys 10000000 --in-flight 256");
const LARGE: &str = "--mode next-many --batch 100 --keys 100000000 --in-flight 256";
const KEYED: &str = "--mode next-many --batch 100 --keys 10000000 --in-flight 256 --key-bytes 20";
const ZIPF: &str =
    "--mode next-many --batch 100 --keys 10000000 --in-flight 256 --distribution zipf";
const NEXT_1024: Work = Work::Bench("--in-flight 1024");
const NEXT_64: Work = Work::Bench("--in-flight 64");
const BARE_64: Work = Work::Unary {
    of: Service::Bare,
    in_flight: 64,
};

/// INCR of a million keys by 50 clients.
const fn door(of: Speaker, pipeline: u32) -> Work {
    Work::Incr {
        of,
        clients: 50,
        pipeline,
    }
}

/// GET of a million uids by 50 connections.
const fn http(of: Server) -> Work {
    Work::Get {
        of,
        connections: 50,
    }
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "next-many",
        about: "100 uids a call, of ten million; the bare stream, 100 numbers a frame",
        ours: MANY,
        theirs: Some(Work::Frames { numbers: 100 }),
        prepare: None,
        bars: &[Bar::Rate(15e6), Bar::Ratio(0.45)],
    },
    Row {
        name: "pipe",
        about: "the same without the SDK, each call a frame; the bare stream, 100 numbers a frame",
        ours: Work::Bench("--mode pipe --batch 100 --keys 10000000 --in-flight 128"),
        theirs: Some(Work::Frames { numbers: 100 }),
        prepare: None,
        bars: &[Bar::Rate(15e6), Bar::Ratio(0.45)],
    },
    Row {
        name: "next-1024",
        about: "one number a call, 1,024 in flight; bare unary calls, as many",
        ours: NEXT_1024,
        theirs: Some(Work::Unary {
            of: Service::Bare,
            in_flight: 1_024,
        }),
        prepare: None,
        bars: &[Bar::Rate(2.5e6), Bar::Ratio(30.0)],
    },
    Row {
        name: "next-64",
        about: "one number a call, 64 in flight; bare unary calls, as many",
        ours: NEXT_64,
        theirs: Some(BARE_64),
        prepare: None,
        bars: &[Bar::Rate(0.5e6)],
    },
    Row {
        name: "unary",
        about: "plain unary Next, 64 in flight; bare unary calls of the same messages",
        ours: Work::Unary {
            of: Service::Seqsvr,
            in_flight: 64,
        },
        theirs: Some(BARE_64),
        prepare: None,
        bars: &[Bar::Ratio(0.9)],
    },
    Row {
        name: "hot",
        about: "one uid, 1,024 callers; next-1024",
        ours: Work::Bench("--in-flight 1024 --distribution hot"),
        theirs: Some(NEXT_1024),
        prepare: None,
        bars: &[Bar::Ratio(0.8)],
    },
    Row {
        name: "large",
        about: "next-many of a hundred million touched uids; of one million",
        ours: Work::Bench(LARGE),
        theirs: Some(Work::Bench(
            "--mode next-many --batch 100 --keys 1000000 --in-flight 256",
        )),
        prepare: Some((LARGE, Duration::from_secs(60))),
        bars: &[Bar::Ratio(0.6), Bar::Bytes(5.0)],
    },
    Row {
        name: "keyed",
        about: "next-many of ten million touched keys of 20 bytes; of as many uids",
        ours: Work::Bench(KEYED),
        theirs: Some(MANY),
        prepare: Some((KEYED, Duration::from_secs(40))),
        bars: &[Bar::Ratio(0.4)],
    },
    Row {
        name: "refill",
        about: "unary Next at half of peak, 40 numbers a call, eight uids with a section each, step 10,000; uids of one section whose step does not end",
        ours: Work::Half("--unary --count 40 --keys 8 --namespace pinned"),
        theirs: Some(Work::Half(
            "--unary --count 40 --keys 8 --namespace default",
        )),
        prepare: None,
        bars: &[Bar::Tail(1.2), Bar::Raises(50.0), Bar::NoneWaited],
    },
    Row {
        name: "redis-synced",
        about: "next-1024; Redis INCR with appendfsync always, 1,024 in flight in pipelines of 64",
        ours: NEXT_1024,
        theirs: Some(Work::Incr {
            of: Speaker::RedisSynced,
            clients: 16,
            pipeline: 64,
        }),
        prepare: None,
        bars: &[Bar::Ratio(3.0)],
    },
    Row {
        name: "redis",
        about: "next-1024; Redis INCR without persistence, 1,024 in flight in pipelines of 64",
        ours: NEXT_1024,
        theirs: Some(Work::Incr {
            of: Speaker::Redis,
            clients: 16,
            pipeline: 64,
        }),
        prepare: None,
        bars: &[],
    },
    Row {
        name: "door",
        about: "INCR by redis-benchmark, 50 clients; a bare loop that speaks the protocol",
        ours: door(Speaker::Seqsvr, 1),
        theirs: Some(door(Speaker::Bare, 1)),
        prepare: None,
        bars: &[Bar::Ratio(0.9)],
    },
    Row {
        name: "door-valkey",
        about: "INCR by redis-benchmark, 50 clients; Valkey 9.1, one thread",
        ours: door(Speaker::Seqsvr, 1),
        theirs: Some(door(Speaker::Valkey, 1)),
        prepare: None,
        bars: &[],
    },
    Row {
        name: "door-valkey-16",
        about: "in pipelines of 16; Valkey 9.1, one thread",
        ours: door(Speaker::Seqsvr, 16),
        theirs: Some(door(Speaker::Valkey, 16)),
        prepare: None,
        bars: &[],
    },
    Row {
        name: "door-valkey-100",
        about: "in pipelines of 100; Valkey 9.1, one thread",
        ours: door(Speaker::Seqsvr, 100),
        theirs: Some(door(Speaker::Valkey, 100)),
        prepare: None,
        bars: &[],
    },
    Row {
        name: "door-valkey-threads",
        about: "INCR by redis-benchmark, 50 clients; Valkey 9.1 with io-threads 2",
        ours: door(Speaker::Seqsvr, 1),
        theirs: Some(door(Speaker::ValkeyThreads, 1)),
        prepare: None,
        bars: &[],
    },
    Row {
        name: "door-valkey-threads-16",
        about: "in pipelines of 16; Valkey 9.1 with io-threads 2",
        ours: door(Speaker::Seqsvr, 16),
        theirs: Some(door(Speaker::ValkeyThreads, 16)),
        prepare: None,
        bars: &[],
    },
    Row {
        name: "door-valkey-threads-100",
        about: "in pipelines of 100; Valkey 9.1 with io-threads 2",
        ours: door(Speaker::Seqsvr, 100),
        theirs: Some(door(Speaker::ValkeyThreads, 100)),
        prepare: None,
        bars: &[],
    },
    Row {
        name: "door-redis",
        about: "INCR by redis-benchmark, 50 clients; Redis without persistence",
        ours: door(Speaker::Seqsvr, 1),
        theirs: Some(door(Speaker::Redis, 1)),
        prepare: None,
        bars: &[Bar::Ratio(0.9)],
    },
    Row {
        name: "door-redis-16",
        about: "in pipelines of 16; Redis without persistence",
        ours: door(Speaker::Seqsvr, 16),
        theirs: Some(door(Speaker::Redis, 16)),
        prepare: None,
        bars: &[Bar::Ratio(1.4)],
    },
    Row {
        name: "door-redis-100",
        about: "in pipelines of 100; Redis without persistence",
        ours: door(Speaker::Seqsvr, 100),
        theirs: Some(door(Speaker::Redis, 100)),
        prepare: None,
        bars: &[Bar::Ratio(2.2)],
    },
    Row {
        name: "door-synced",
        about: "INCR by redis-benchmark, 50 clients; Redis with appendfsync always",
        ours: door(Speaker::Seqsvr, 1),
        theirs: Some(door(Speaker::RedisSynced, 1)),
        prepare: None,
        bars: &[Bar::Ratio(1.8)],
    },
    Row {
        name: "door-synced-16",
        about: "in pipelines of 16; Redis with appendfsync always",
        ours: door(Speaker::Seqsvr, 16),
        theirs: Some(door(Speaker::RedisSynced, 16)),
        prepare: None,
        bars: &[Bar::Ratio(2.5)],
    },
    Row {
        name: "door-synced-100",
        about: "in pipelines of 100; Redis with appendfsync always",
        ours: door(Speaker::Seqsvr, 100),
        theirs: Some(door(Speaker::RedisSynced, 100)),
        prepare: None,
        bars: &[Bar::Ratio(3.0)],
    },
    Row {
        name: "http",
        about: "GET /v1/next by wrk, 50 connections; axum that adds in memory",
        ours: http(Server::Seqsvr),
        theirs: Some(http(Server::Bare)),
        prepare: None,
        bars: &[Bar::Ratio(0.9)],
    },
    Row {
        name: "postgres",
        about: "next-64; PostgreSQL nextval, 64 clients",
        ours: NEXT_64,
        theirs: Some(Work::Nextval { clients: 64 }),
        prepare: None,
        bars: &[Bar::Ratio(10.0)],
    },
    Row {
        name: "postgres-row",
        about: "next-64; PostgreSQL update of a user's row, 64 clients",
        ours: NEXT_64,
        theirs: Some(Work::UpdateRow { clients: 64 }),
        prepare: None,
        bars: &[],
    },
    Row {
        name: "etcd",
        about: "next-1024; an etcd transaction a number, one member, 1,024 in flight",
        ours: NEXT_1024,
        theirs: Some(Work::Unary {
            of: Service::Etcd,
            in_flight: 1_024,
        }),
        prepare: None,
        bars: &[Bar::Ratio(100.0)],
    },
    Row {
        name: "tsoracle",
        about: "next-64; tsoracle GetSeq with its file driver, 64 in flight",
        ours: NEXT_64,
        theirs: Some(Work::Unary {
            of: Service::Tsoracle,
            in_flight: 64,
        }),
        prepare: None,
        bars: &[],
    },
    Row {
        name: "zipf",
        about: "what is written under next-many of ten million uids by Zipf's law",
        ours: Work::Bench(ZIPF),
        theirs: None,
        prepare: Some((ZIPF, Duration::from_secs(10))),
        bars: &[Bar::EachRaise(5_000.0)],
    },
    Row {
        name: "hot-sections",
        about: "what is written for 10,000 hot sections, raised ten numbers at a time",
        ours: Work::Bench(
            "--mode next-many --batch 100 --keys 10000 --in-flight 256 --namespace tens --warm-up 10s",
        ),
        theirs: None,
        prepare: None,
        bars: &[Bar::EachSync(20.0)],
    },
    Row {
        name: "raises-1",
        about: "how fast one section is raised, ten numbers at a time",
        ours: Work::Bench("--keys 1 --in-flight 64 --namespace tens --warm-up 3s"),
        theirs: None,
        prepare: None,
        bars: &[],
    },
    Row {
        name: "raises-100",
        about: "how fast 100 sections are raised, ten numbers at a time",
        ours: Work::Bench("--keys 100 --in-flight 1024 --namespace tens --warm-up 3s"),
        theirs: None,
        prepare: None,
        bars: &[],
    },
    Row {
        name: "raises-42950",
        about: "how fast 42,950 sections are raised, ten numbers at a time",
        ours: Work::Bench(
            "--mode next-many --batch 100 --keys 42950 --in-flight 256 --namespace tens --warm-up 20s",
        ),
        theirs: None,
        prepare: None,
        bars: &[],
    },
];
