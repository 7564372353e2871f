//! Conversion of an op to the command it means in a given state. Sections and names are few.

use proptest::sample::Index;
use seqsvr_core::SEQ_MAX;
use seqsvr_core::command::{
    Command, Fence, HighWaterMark, OpenSession, SessionProof, SlotHighWaterMark,
};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::ids::{
    ClusterId, Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId, Slot,
};
use seqsvr_core::namespace::{NamespaceChange, NamespaceLimits, NamespaceSpec};
use seqsvr_core::progression::Progression;
use seqsvr_core::state::{SectionRow, State};

use crate::ops::{FencedSection, Op, RandomMark};

const SLOTS: u32 = 3;

/// Every section the sequences touch: dense, keyed, with a stride, and near the end of the range.
const SECTIONS: [(u32, u32); 6] = [(1, 0), (1, 1), (2, 0), (2, 4_095), (3, 0), (4, 0)];

/// Adds an offset to a value, which stays within the range of u64.
fn add_offset(value: u64, off: i8) -> u64 {
    value.saturating_add_signed(i64::from(off))
}

/// Converts an op to the command that it means in this state.
pub(crate) fn to_command(op: Op, state: &State, term: u64, log: &[Command]) -> Option<Command> {
    let sessions: Vec<_> = state.sessions().map(|(id, _)| id).collect();
    // Sometimes one that does not exist.
    let session = |i: Index| {
        let i = i.index(sessions.len() * 5 + 1);
        let pick = sessions.get(i / 5).copied();
        pick.unwrap_or(SessionId(99))
    };
    let epoch = |slot: Slot, off| {
        let now = state
            .slots()
            .get(usize::from(slot.0))
            .map_or(0, |row| row.epoch.0);
        Epoch(add_offset(now, off))
    };
    let fence = |at: &FencedSection| {
        let (namespace, section) = SECTIONS[at.section.index(SECTIONS.len())];
        let section = SectionKey {
            namespace: NamespaceId(namespace),
            section: SectionId(section),
        };
        let slot =
            Slot((state.slot_of(section).unwrap_or_default().0 + u16::from(at.wrong_slot)) % 3);
        Fence {
            slot,
            epoch: epoch(slot, at.epoch),
            section,
        }
    };
    let row = |key| state.section(key);
    let generation = |key, off| {
        Generation(add_offset(
            row(key).map_or(0, |s: &SectionRow| s.generation.0),
            off,
        ))
    };
    // From below the base to above max_seq.
    let value = |key, v: u8| {
        row(key).map_or(0, |s| {
            s.base.saturating_sub(20).saturating_add(u64::from(v) * 2)
        })
    };
    let to_mark = |mark: &RandomMark, key| HighWaterMark {
        section: key,
        generation: generation(key, mark.generation),
        value: value(key, mark.value),
    };
    Some(match op {
        Op::OpenSession { name, nonce, proof } => {
            let name = format!("a{name}");
            let living = state.find_session(&name).map(|(id, s)| (id, s.nonce));
            let proof = proof
                .zip(living)
                .map(|(right, (session, nonce))| SessionProof {
                    session,
                    nonce: if right { nonce } else { Nonce(nonce.0 + 1) },
                });
            Command::OpenSession(OpenSession {
                name,
                address: "127.0.0.1:7700".into(),
                incarnation: u64::from(nonce),
                nonce: Nonce(u128::from(nonce)),
                proof,
            })
        }
        Op::CloseSession {
            session: of,
            high_water_marks,
            last: ends,
        } => Command::CloseSession {
            session: session(of),
            high_water_marks: high_water_marks
                .iter()
                .map(|mark| {
                    let Fence {
                        slot,
                        epoch,
                        section,
                    } = fence(&mark.at);
                    SlotHighWaterMark {
                        slot,
                        epoch,
                        mark: to_mark(mark, section),
                    }
                })
                .collect(),
            last: ends,
        },
        Op::Expire {
            session: of,
            term: off,
        } => Command::ExpireSession {
            session: session(of),
            term: add_offset(term, off),
        },
        Op::Assign {
            slot,
            epoch: off,
            to,
        } => {
            let slot = Slot(u16::from(slot));
            Command::Assign {
                slot,
                from: epoch(slot, off),
                to: session(to),
            }
        }
        Op::Open {
            at,
            generation: off,
            nonce,
            step,
        } => {
            let fence = fence(&at);
            Command::Open {
                fence,
                expected: generation(fence.section, off),
                nonce: Nonce(u128::from(nonce)),
                step,
            }
        }
        Op::Raise {
            at,
            generation: off,
            by,
            cause,
        } => {
            let fence = fence(&at);
            let to = row(fence.section)
                .map_or(0, |s| s.max_seq)
                .saturating_add(by);
            Command::Raise {
                fence,
                generation: generation(fence.section, off),
                to,
                cause,
            }
        }
        Op::Close {
            at,
            generation: off,
            value: v,
        } => {
            let fence = fence(&at);
            Command::CloseSection {
                fence,
                generation: generation(fence.section, off),
                value: value(fence.section, v),
            }
        }
        Op::Move {
            slot,
            epoch: off,
            high_water_marks,
            to,
        } => {
            let slot = Slot(u16::from(slot));
            Command::MoveSlot {
                slot,
                epoch: epoch(slot, off),
                high_water_marks: high_water_marks
                    .iter()
                    .map(|mark| to_mark(mark, fence(&mark.at).section))
                    .collect(),
                to: to.map(session),
            }
        }
        Op::Create { which, step } => {
            let mut spec =
                NamespaceSpec::new(&format!("n{which}"), Geometry::Keyed { sections: 4 });
            spec.step = step;
            Command::CreateNamespace(spec)
        }
        Op::Alter {
            namespace,
            step,
            step_max,
        } => Command::AlterNamespace {
            id: NamespaceId(namespace),
            step,
            limits: NamespaceLimits {
                step_max,
                raise_to_max: u64::from(step) * 10,
                strict: step % 2 == 0,
            },
        },
        Op::Change {
            namespace,
            step,
            step_max,
        } => Command::ChangeNamespace {
            id: NamespaceId(namespace),
            change: NamespaceChange {
                step,
                step_max,
                raise_to_max: step.map(|step| u64::from(step) * 10),
                strict: step_max.map(|step_max| step_max % 2 == 0),
            },
        },
        Op::Init { cluster } => Command::Init {
            cluster: ClusterId(u128::from(cluster)),
            lease_ms: 3_000,
            slots: SLOTS,
        },
        Op::SetLevel { level } => Command::SetLevel { level },
        Op::Again { which } if !log.is_empty() => which.get(log).clone(),
        Op::Again { .. } | Op::NewTerm => return None,
    })
}

/// Returns the commands of a fresh cluster: two sessions, a strided namespace and one near the end
/// of the range.
pub(crate) fn initial_commands() -> Vec<Command> {
    let spec = |name: &str, start, stride, offset| {
        let mut spec = NamespaceSpec::new(
            name,
            Geometry::Dense {
                section_size: 10,
                max_uid: 10,
            },
        );
        spec.progression = Progression {
            start,
            stride,
            offset,
        };
        spec.step = 10;
        spec.limits = NamespaceLimits {
            step_max: 150,
            raise_to_max: 1_000,
            strict: false,
        };
        Command::CreateNamespace(spec)
    };
    let session = |name: &str, nonce| {
        Command::OpenSession(OpenSession {
            name: name.into(),
            address: "127.0.0.1:7700".into(),
            incarnation: 1,
            nonce: Nonce(nonce),
            proof: None,
        })
    };
    vec![
        Command::Init {
            cluster: ClusterId(7),
            lease_ms: 3_000,
            slots: SLOTS,
        },
        spec("strided", 10, 3, 1),
        spec("ending", SEQ_MAX - 150, 1, 0),
        session("a0", 100),
        session("a1", 101),
        assign_command(0, 1),
        assign_command(1, 2),
        assign_command(2, 1),
    ]
}

fn assign_command(slot: u16, to: u64) -> Command {
    Command::Assign {
        slot: Slot(slot),
        from: Epoch(0),
        to: SessionId(to),
    }
}
