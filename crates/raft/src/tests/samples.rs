//! One sample of every kind of stored value, for the golden bytes.
//!
//! Invariant: a kind without a sample does not compile. [`samples!`] matches on all patterns given,
//! so a new variant breaks the match until it has a line, and each sample must fit its own line.

use openraft::raft::AppendEntriesResponse;
use seqsvr_core::command::{
    Fence, HighWaterMark, OpenSession, RaiseCause, SessionProof, SlotHighWaterMark,
};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::ids::{
    ClusterId, Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId, Slot,
};
use seqsvr_core::namespace::{Namespace, NamespaceChange, NamespaceLimits, NamespaceSpec};
use seqsvr_core::state::{
    ClusterRow, FormatRow, RowKey, SectionRow, SessionRow, SlotRow, StateRow,
};

use super::*;
use crate::types::{TypeConfig, Vote};

macro_rules! samples {
    ($type:ty; $($name:literal: $pattern:pat => $sample:expr;)*) => {{
        let _a_missing_kind_does_not_compile = |value: &$type| match value { $($pattern => (),)* };
        vec![$(($name, {
            let sample: $type = $sample;
            assert!(matches!(sample, $pattern), "{} is of another kind", $name);
            sample
        })),*]
    }};
}

mod ids;

fn section() -> SectionKey {
    SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(42),
    }
}

fn fence() -> Fence {
    Fence {
        slot: Slot(7),
        epoch: Epoch(3),
        section: section(),
    }
}

fn last() -> HighWaterMark {
    HighWaterMark {
        section: section(),
        generation: Generation(2),
        value: 900,
    }
}

fn raise(cause: RaiseCause) -> Command {
    Command::Raise {
        fence: fence(),
        generation: Generation(2),
        to: 20_000,
        cause,
    }
}

/// Returns every command. The first twelve make up the oldest golden batch: new ones follow them.
pub(super) fn commands() -> Vec<(&'static str, Command)> {
    let mut of_ids = ids::id_commands().into_iter();
    let (_, first) = of_ids.next().unwrap();
    let mut all = samples! { Command;
        "init": Command::Init { .. } => Command::Init {
            cluster: ClusterId(0xc1),
            lease_ms: 3_000,
            slots: 1_024,
        };
        "open-session-proven": Command::OpenSession(OpenSession { proof: Some(_), .. }) =>
            Command::OpenSession(OpenSession {
                proof: Some(SessionProof {
                    session: SessionId(1),
                    nonce: Nonce(4),
                }),
                ..open_session()
            });
        "close-session": Command::CloseSession { .. } => Command::CloseSession {
            session: SessionId(2),
            high_water_marks: vec![SlotHighWaterMark {
                slot: Slot(7),
                epoch: Epoch(3),
                mark: last(),
            }],
            last: true,
        };
        "expire-session": Command::ExpireSession { .. } => Command::ExpireSession {
            session: SessionId(3),
            term: 8,
        };
        "assign": Command::Assign { .. } => Command::Assign {
            slot: Slot(7),
            from: Epoch(2),
            to: SessionId(3),
        };
        "open": Command::Open { .. } => Command::Open {
            fence: fence(),
            expected: Generation(1),
            nonce: Nonce(6),
            step: 10_000,
        };
        "raise-refill": Command::Raise { cause: RaiseCause::Refill, .. } => raise(RaiseCause::Refill);
        "raise-to": Command::Raise { cause: RaiseCause::RaiseTo { .. }, .. } =>
            raise(RaiseCause::RaiseTo { force: true });
        "close-section": Command::CloseSection { .. } => Command::CloseSection {
            fence: fence(),
            generation: Generation(2),
            value: 900,
        };
        "move-slot": Command::MoveSlot { to: Some(_), .. } => Command::MoveSlot {
            slot: Slot(7),
            epoch: Epoch(3),
            high_water_marks: vec![last()],
            to: Some(SessionId(4)),
        };
        "create-namespace-keyed":
            Command::CreateNamespace(NamespaceSpec { geometry: Geometry::Keyed { .. }, .. }) =>
            Command::CreateNamespace(NamespaceSpec::default_keyed());
        "alter-namespace": Command::AlterNamespace { .. } => Command::AlterNamespace {
            id: NamespaceId(2),
            step: 500,
            limits: NamespaceLimits::DEFAULT,
        };
        "open-session": Command::OpenSession(OpenSession { proof: None, .. }) =>
            Command::OpenSession(open_session());
        "move-slot-free": Command::MoveSlot { to: None, .. } => Command::MoveSlot {
            slot: Slot(7),
            epoch: Epoch(3),
            high_water_marks: Vec::new(),
            to: None,
        };
        "create-namespace-dense":
            Command::CreateNamespace(NamespaceSpec { geometry: Geometry::Dense { .. }, .. }) =>
            Command::CreateNamespace(NamespaceSpec::default_dense());
        "set-level": Command::SetLevel { .. } => Command::SetLevel { level: 2 };
        "change-namespace": Command::ChangeNamespace { .. } => Command::ChangeNamespace {
            id: NamespaceId(2),
            change: NamespaceChange {
                step: Some(500),
                step_max: None,
                raise_to_max: Some(0),
                strict: Some(true),
            },
        };
        "create-family": Command::Ids(_) => Command::Ids(first);
    };
    all.extend(of_ids.map(|(name, command)| (name, Command::Ids(command))));
    all
}

/// Returns the commands of the oldest golden batch.
pub(super) fn first_commands() -> Vec<Command> {
    commands().into_iter().take(12).map(|(_, c)| c).collect()
}

fn open_session() -> OpenSession {
    OpenSession {
        name: String::from("a1"),
        address: String::from("10.0.0.9:7700"),
        incarnation: 99,
        nonce: Nonce(5),
        proof: None,
    }
}

/// Returns every kind of entry; to a reader, a membership in change, with a learner, is its own
/// kind.
pub(super) fn payloads() -> Vec<(&'static str, Payload)> {
    let mut all = samples! { Payload;
        "log-blank": Payload::Blank => Payload::Blank;
        "log-membership": Payload::Membership(_) => Payload::Membership(membership([1, 2, 3]));
        "log-batch": Payload::Normal(_) => entry(5, 7, first_commands()).payload;
    };
    let peers: BTreeMap<u64, Peer> = (1..=5).map(|id| (id, peer(id))).collect();
    let configs = vec![[1, 2, 3].into(), [2, 3, 4].into()];
    let joint = openraft::Membership::new(configs, peers).unwrap();
    all.push(("log-membership-joint", Payload::Membership(joint)));
    all
}

/// Returns every answer to an append.
pub(super) fn append_answers() -> Vec<(&'static str, AppendEntriesResponse<TypeConfig>)> {
    type Answer = AppendEntriesResponse<TypeConfig>;
    samples! { Answer;
        "call-append-success": Answer::Success => Answer::Success;
        "call-append-answer": Answer::PartialSuccess(_) =>
            Answer::PartialSuccess(Some(log_id(4, 6)));
        "call-append-conflict": Answer::Conflict => Answer::Conflict;
        "call-append-higher": Answer::HigherVote(_) => Answer::HigherVote(Vote::new(6, 1));
    }
}

/// Returns the entry that raises a cluster to a level.
pub(super) fn level_payload(level: u32) -> Payload {
    entry(5, 7, vec![Command::SetLevel { level }]).payload
}

/// Returns every row of a level, with its key, of a consistent state.
pub(super) fn rows(level: u32) -> Vec<(RowKey, StateRow)> {
    let cluster = ClusterRow {
        id: ClusterId(0xc1),
        lease_ms: 3_000,
        slots: 1,
        table_version: 12,
        next_session: 5,
        next_namespace: 3,
    };
    let namespace = Namespace {
        id: NamespaceId(1),
        spec: NamespaceSpec::default_dense(),
        version: 1,
    };
    let row = SectionRow {
        max_seq: 20_000,
        generation: Generation(2),
        base: 10_000,
        nonce: Nonce(6),
        open: true,
        raised: 3,
    };
    let slot = SlotRow {
        epoch: Epoch(3),
        owner: Some(SessionId(4)),
        version: 11,
    };
    let session = SessionRow {
        name: String::from("a1"),
        address: String::from("10.0.0.9:7700"),
        incarnation: 99,
        nonce: Nonce(5),
    };
    let format = FormatRow {
        level: level.max(2),
        next_store: 4,
    };
    let mut rows = vec![
        (RowKey::Cluster, StateRow::Cluster(cluster)),
        (
            RowKey::Namespace(NamespaceId(1)),
            StateRow::Namespace(namespace),
        ),
        (RowKey::Section(section()), StateRow::Section(row)),
        (RowKey::Slot(Slot(0)), StateRow::Slot(slot)),
        (RowKey::Session(SessionId(4)), StateRow::Session(session)),
        (RowKey::Format, StateRow::Format(format)),
    ];
    rows.extend(ids::id_rows());
    // A kind that is missing here does not compile.
    let kind = |key: &RowKey, row: &StateRow| match (key, row) {
        (RowKey::Cluster, StateRow::Cluster(_)) => 0,
        (RowKey::Namespace(_), StateRow::Namespace(_)) => 1,
        (RowKey::Section(_), StateRow::Section(_)) => 2,
        (RowKey::Slot(_), StateRow::Slot(_)) => 3,
        (RowKey::Session(_), StateRow::Session(_)) => 4,
        (RowKey::Format, StateRow::Format(_)) => 5,
        (RowKey::Family(_), StateRow::Family(_)) => 6,
        (RowKey::Worker(_), StateRow::Worker(_)) => 7,
        (RowKey::Time, StateRow::Time(_)) => 8,
        (
            RowKey::Cluster
            | RowKey::Namespace(_)
            | RowKey::Section(_)
            | RowKey::Slot(_)
            | RowKey::Session(_)
            | RowKey::Format
            | RowKey::Family(_)
            | RowKey::Worker(_)
            | RowKey::Time,
            StateRow::Cluster(_)
            | StateRow::Namespace(_)
            | StateRow::Section(_)
            | StateRow::Slot(_)
            | StateRow::Session(_)
            | StateRow::Format(_)
            | StateRow::Family(_)
            | StateRow::Worker(_)
            | StateRow::Time(_),
        ) => panic!("a key with a row of another kind"),
    };
    let kinds = rows.iter().map(|(key, row)| kind(key, row));
    assert!(kinds.eq(0..9), "every kind, once");
    rows.retain(|(_, row)| row.level() <= level);
    rows
}
