//! Seqsvr compared with an HTTP service, PostgreSQL, etcd and tsoracle.

use super::super::workload::{GrpcSystem, HttpSystem, Workload};
use super::{Case, NEXT_64, NEXT_1024, Target};

/// GET of 1 million uids by 50 connections.
const fn http_gets(system: HttpSystem) -> Workload {
    Workload::Get {
        system,
        connections: 50,
    }
}

/// Cases of other systems.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "http",
        about: "GET /v1/next by wrk, 50 connections; axum service that counts in memory",
        workload: http_gets(HttpSystem::Seqsvr),
        reference: Some(http_gets(HttpSystem::Baseline)),
        preparation: None,
        targets: &[Target::RatioMin(0.9)],
    },
    Case {
        name: "postgres",
        about: "next-64; PostgreSQL nextval, 64 clients",
        workload: NEXT_64,
        reference: Some(Workload::Nextval { clients: 64 }),
        preparation: None,
        targets: &[Target::RatioMin(10.0)],
    },
    Case {
        name: "postgres-row",
        about: "next-64; PostgreSQL update of a user's row, 64 clients",
        workload: NEXT_64,
        reference: Some(Workload::UpdateRow { clients: 64 }),
        preparation: None,
        targets: &[],
    },
    Case {
        name: "etcd",
        about: "next-1024; one etcd transaction per number, one member, 1,024 in flight",
        workload: NEXT_1024,
        reference: Some(Workload::Unary {
            system: GrpcSystem::Etcd,
            in_flight: 1_024,
        }),
        preparation: None,
        targets: &[Target::RatioMin(100.0)],
    },
    Case {
        name: "tsoracle",
        about: "next-64; tsoracle GetSeq with its file driver, 64 in flight",
        workload: NEXT_64,
        reference: Some(Workload::Unary {
            system: GrpcSystem::Tsoracle,
            in_flight: 64,
        }),
        preparation: None,
        targets: &[],
    },
];
