//! A cluster on which random commands are played, and everything that it has used.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use seqsvr_core::command::{Batch, Command, Fence, HighWaterMark, OpenSession, RaiseCause, Reply};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::ids::{
    ClusterId, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId, Slot,
};
use seqsvr_core::namespace::{Namespace, NamespaceSpec};
use seqsvr_core::progression::Progression;
use seqsvr_core::state::State;
use seqsvr_core::state::restore::RestoreMargins;

const SLOTS: u32 = 4;
pub(super) const SECTIONS: u32 = 6;
const TERM: u64 = 1;
pub(super) const THIRDS: NamespaceId = NamespaceId(3);

/// A cluster, and all numbers and epochs that it has used.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) state: State,
    pub(super) nonce: u128,
    /// Highest max_seq a section has had since the last backup: no number above it was ever handed
    /// out. (One that a Close lowered before was not reached, as the owner reported.)
    pub(super) peak: BTreeMap<SectionKey, u64>,
    /// Numbers added to a section since the last backup, and changes of a slot's epoch.
    pub(super) added: BTreeMap<SectionKey, u64>,
    pub(super) changed: BTreeMap<Slot, u64>,
}

pub(super) fn section_key(namespace: NamespaceId, section: u32) -> SectionKey {
    SectionKey {
        namespace,
        section: SectionId(section),
    }
}

impl World {
    pub(super) fn new() -> World {
        let mut world = World::default();
        let init = Command::Init {
            cluster: ClusterId(1),
            lease_ms: 3_000,
            slots: SLOTS,
        };
        assert_eq!(world.play(init), Reply::Done);
        let spec = NamespaceSpec {
            progression: Progression {
                start: 10,
                stride: 3,
                offset: 2,
            },
            step: 20,
            ..NamespaceSpec::new(
                "thirds",
                Geometry::Dense {
                    section_size: 10,
                    max_uid: u64::from(SECTIONS) * 10,
                },
            )
        };
        let made = world.play(Command::CreateNamespace(spec));
        assert_eq!(made, Reply::Namespace(THIRDS));
        let step = Command::AlterNamespace {
            id: NamespaceId(1),
            step: 20,
            limits: world.namespace_of(NamespaceId(1)).spec.limits,
        };
        world.play(step);
        let keys = Command::AlterNamespace {
            id: NamespaceId(2),
            step: 20,
            limits: world.namespace_of(NamespaceId(2)).spec.limits,
        };
        world.play(keys);
        world
    }

    pub(super) fn namespace_of(&self, id: NamespaceId) -> Namespace {
        self.state.namespace(id).unwrap().clone()
    }

    /// Applies one command and notes what it used.
    pub(super) fn play(&mut self, command: Command) -> Reply {
        let before = self.state.clone();
        let batch = Batch {
            commands: vec![command],
        };
        let reply = self.state.apply(TERM, &batch, &mut BTreeSet::new());
        for (key, now) in self.state.sections() {
            let progression = self.namespace_of(key.namespace).spec.progression;
            let was = before
                .section(*key)
                .map_or(before.unopened_max_seq(&progression), |s| s.max_seq);
            *self.added.entry(*key).or_default() += progression.count_between(was, now.max_seq);
            let peak = self.peak.entry(*key).or_default();
            *peak = now.max_seq.max(*peak);
        }
        for (i, (was, now)) in before.slots().iter().zip(self.state.slots()).enumerate() {
            *self.changed.entry(Slot(i as u16)).or_default() += now.epoch.0 - was.epoch.0;
        }
        reply.into_iter().next().unwrap()
    }

    pub(super) fn fence(&self, section: SectionKey) -> Fence {
        let slot = self.state.slot_of(section).unwrap();
        Fence {
            slot,
            epoch: self.state.slots()[usize::from(slot.0)].epoch,
            section,
        }
    }

    pub(super) fn open_section(&mut self, key: SectionKey, step: u32) -> Reply {
        self.nonce += 1;
        self.play(Command::Open {
            fence: self.fence(key),
            expected: self
                .state
                .section(key)
                .map_or(Generation(0), |s| s.generation),
            nonce: Nonce(self.nonce),
            step,
        })
    }

    pub(super) fn raise_section(&mut self, key: SectionKey, more: u64) -> Option<Reply> {
        let row = self.state.section(key)?.clone();
        let progression = self.namespace_of(key.namespace).spec.progression;
        let to = progression.nth_after(row.max_seq, more)?;
        Some(self.play(Command::Raise {
            fence: self.fence(key),
            generation: row.generation,
            to,
            cause: RaiseCause::RaiseTo { force: true },
        }))
    }

    pub(super) fn open_session(&mut self, name: u8) -> Reply {
        self.nonce += 1;
        self.play(Command::OpenSession(OpenSession {
            name: format!("a{name}"),
            address: "x:1".into(),
            incarnation: 1,
            nonce: Nonce(self.nonce),
            proof: None,
        }))
    }

    pub(super) fn pick_session(&self, pick: u8) -> Option<SessionId> {
        let all: Vec<SessionId> = self.state.sessions().map(|(id, _)| id).collect();
        (!all.is_empty()).then(|| all[usize::from(pick) % all.len()])
    }

    /// Gives every free slot to a session.
    pub(super) fn assign_all(&mut self) {
        self.open_session(0);
        let to = self.pick_session(0).unwrap();
        for slot in (0..SLOTS as u16).map(Slot) {
            let from = self.state.slots()[usize::from(slot.0)].epoch;
            self.play(Command::Assign { slot, from, to });
        }
    }

    pub(super) fn play_op(&mut self, op: Op) {
        let Op { kind, a, b, n } = op;
        let slot = Slot(u16::from(a) % SLOTS as u16);
        let epoch = self.state.slots()[usize::from(slot.0)].epoch;
        let namespace = if b % 2 == 0 { NamespaceId(1) } else { THIRDS };
        let key = section_key(namespace, u32::from(a) % SECTIONS);
        let row = self.state.section(key).cloned();
        match kind {
            0 => drop(self.open_session(a % 2)),
            1 => {
                if let Some(session) = self.pick_session(b) {
                    self.play(Command::ExpireSession {
                        session,
                        term: TERM,
                    });
                }
            }
            2 => self.assign_all(),
            3 => {
                let high_water_marks = row.iter().map(|row| HighWaterMark {
                    section: key,
                    generation: row.generation,
                    value: row.base + u64::from(n),
                });
                let to = self.pick_session(b).filter(|_| n % 3 > 0);
                let slot = self.state.slot_of(key).unwrap();
                self.play(Command::MoveSlot {
                    slot,
                    epoch: if n % 5 == 0 {
                        epoch
                    } else {
                        self.fence(key).epoch
                    },
                    high_water_marks: high_water_marks.collect(),
                    to,
                });
            }
            4 | 5 => drop(self.open_section(key, u32::from(n) + 1)),
            6 | 7 => drop(self.raise_section(key, u64::from(n) + 1)),
            _ => {
                if let Some(row) = row {
                    self.play(Command::CloseSection {
                        fence: self.fence(key),
                        generation: row.generation,
                        value: row.base + u64::from(n),
                    });
                }
            }
        }
    }

    /// Returns the present state as a backup, and starts to count what is used after it.
    pub(super) fn back_up(&mut self) -> State {
        self.added.clear();
        self.changed.clear();
        let now = self.state.sections();
        self.peak = now.map(|(key, row)| (*key, row.max_seq)).collect();
        self.state.clone()
    }

    /// Returns the margins that cover exactly what was used since `backup`.
    pub(super) fn exact_margins_since(&self, backup: &State) -> RestoreMargins {
        let most = |known: bool| {
            let sections = self.added.iter();
            let of = sections.filter(|(key, _)| backup.section(**key).is_some() == known);
            of.map(|(_, n)| *n).max().unwrap_or(0)
        };
        RestoreMargins {
            max_seq: most(true),
            start: most(false),
            epoch: self.changed.values().copied().max().unwrap_or(0),
            ids_from_ms: None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    kind: u8,
    a: u8,
    b: u8,
    n: u16,
}

pub(super) fn random_ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = (0u8..9, any::<u8>(), any::<u8>(), 0u16..300);
    let op = op.prop_map(|(kind, a, b, n)| Op { kind, a, b, n });
    proptest::collection::vec(op, 0..most)
}
