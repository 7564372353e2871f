//! Samples of families, workers and store time.

use seqsvr_core::family::{
    AcquireWorker, Family, FamilyChange, FamilyLimits, FamilySpec, IdsCommand, TickStart,
};
use seqsvr_core::ids::{FamilyId, Nonce, WorkerEpoch, WorkerId, WorkerKey};
use seqsvr_core::layout::TickScale;
use seqsvr_core::state::{FamilyRow, RowKey, StateRow, TimeRow, WorkerRow};

const EPOCH: WorkerEpoch = WorkerEpoch(9);

fn worker() -> WorkerKey {
    WorkerKey {
        family: FamilyId(2),
        worker: WorkerId(5),
    }
}

/// Returns a spec with a value of its own in each field.
fn spec() -> FamilySpec {
    let layout = "unsigned,0:1,time:39,lane:2,dc:2,worker:7,const:1=1,rand:1,seq:11";
    FamilySpec {
        name: String::from("orders"),
        layout: layout.parse().unwrap(),
        scale: TickScale::new(1_767_225_600_000, 10).unwrap(),
        dc: 3,
        first_worker: WorkerId(1),
        last_worker: WorkerId(100),
        reserved: vec![(WorkerId(2), WorkerId(4)), (WorkerId(99), WorkerId(99))],
        lanes_once: true,
        reuse_never: false,
        sticky: true,
        seq_min: 5,
    }
}

fn limits() -> FamilyLimits {
    FamilyLimits {
        sequence_start: TickStart::Random { below: 100 },
        frozen: true,
        ..FamilyLimits::DEFAULT
    }
}

/// Returns every command of ids.
pub(super) fn id_commands() -> Vec<(&'static str, IdsCommand)> {
    samples! { IdsCommand;
        "create-family":
            IdsCommand::CreateFamily { spec: FamilySpec { reuse_never: false, .. }, .. } =>
            IdsCommand::CreateFamily { spec: spec(), limits: limits() };
        "create-family-never":
            IdsCommand::CreateFamily { spec: FamilySpec { reuse_never: true, .. }, .. } =>
            IdsCommand::CreateFamily {
                spec: FamilySpec {
                    reuse_never: true,
                    sticky: false,
                    ..spec()
                },
                limits: FamilyLimits::DEFAULT,
            };
        "alter-family": IdsCommand::AlterFamily { .. } => IdsCommand::AlterFamily {
            id: FamilyId(2),
            change: FamilyChange {
                window_ms: Some(20_000),
                window_max_ms: None,
                ahead_ms: Some(0),
                sequence_start: Some(TickStart::Carry),
                workers_per_holder: None,
                frozen: Some(true),
            },
        };
        "raise-family": IdsCommand::RaiseFamily { .. } => IdsCommand::RaiseFamily {
            id: FamilyId(2),
            floor: 4_000_000_000,
            force: true,
        };
        "acquire-worker": IdsCommand::AcquireWorker(AcquireWorker { worker: Some(_), .. }) =>
            IdsCommand::AcquireWorker(AcquireWorker { worker: Some(WorkerId(5)), ..acquire() });
        "acquire-worker-any": IdsCommand::AcquireWorker(AcquireWorker { worker: None, .. }) =>
            IdsCommand::AcquireWorker(acquire());
        "renew-worker": IdsCommand::RenewWorker { .. } => IdsCommand::RenewWorker {
            worker: worker(),
            epoch: EPOCH,
            window_ms: 20_000,
            nonce: acquire().nonce,
        };
        "release-worker": IdsCommand::ReleaseWorker { .. } => IdsCommand::ReleaseWorker {
            worker: worker(),
            epoch: EPOCH,
            used: 4_000_000_123,
            nonce: acquire().nonce,
        };
        "revoke-worker": IdsCommand::RevokeWorker { .. } => IdsCommand::RevokeWorker {
            worker: worker(),
            epoch: EPOCH,
        };
        "advance-time": IdsCommand::AdvanceTime { .. } => IdsCommand::AdvanceTime {
            now_ms: 1_790_000_000_000,
            resets: 1,
        };
        "set-time": IdsCommand::SetTime { .. } => IdsCommand::SetTime {
            now_ms: 1_790_000_000_000,
            resets: 1,
        };
    }
}

fn acquire() -> AcquireWorker {
    AcquireWorker {
        family: FamilyId(2),
        holder: String::from("pod-3 of a"),
        nonce: Nonce(6),
        worker: None,
        window_ms: 0,
    }
}

/// Returns every row of ids, with its key.
pub(super) fn id_rows() -> [(RowKey, StateRow); 3] {
    let family = Family {
        id: FamilyId(2),
        spec: spec(),
        limits: limits(),
        version: 10,
    };
    let family = FamilyRow {
        family,
        floor: 4_000_000_000,
        next_fresh: WorkerId(6),
        epoch_floor: WorkerEpoch(3),
    };
    let row = WorkerRow {
        epoch: EPOCH,
        holder: String::from("pod-3 of a"),
        is_held: true,
        nonce: Nonce(6),
        lane: 1,
        untils: vec![4_000_000_000, 4_000_001_000, 0, 0],
        base: 4_000_000_500,
        taken_ms: 1_790_000_000_000,
    };
    let time = TimeRow {
        high_ms: 1_790_000_000_001,
        resets: 1,
        families_from_ms: 1_800_000_000_000,
    };
    [
        (RowKey::Family(FamilyId(2)), StateRow::Family(family)),
        (RowKey::Worker(worker()), StateRow::Worker(row)),
        (RowKey::Time, StateRow::Time(time)),
    ]
}
