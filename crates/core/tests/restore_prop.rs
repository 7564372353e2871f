//! A cluster is backed up, goes on, is lost, and restored: nothing that it ever used is used again.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use seqsvr_core::SEQ_MAX;
use seqsvr_core::command::{Batch, Cause, Command, Fence, Final, OpenSession, Reply};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::id::{
    ClusterId, Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId, Slot,
};
use seqsvr_core::namespace::{Namespace, Spec};
use seqsvr_core::progression::Progression;
use seqsvr_core::state::State;
use seqsvr_core::state::restore::{Error, MARGIN_MAX, Margin, Margins, RESTORED};

const SLOTS: u32 = 4;
const SECTIONS: u32 = 6;
const TERM: u64 = 1;
const THIRDS: NamespaceId = NamespaceId(3);
const NEW: ClusterId = ClusterId(2);

/// A cluster, and all that was ever used of it.
#[derive(Clone, Default)]
struct World {
    state: State,
    nonce: u128,
    /// Highest max_seq a section has had since the last backup: no number above it was ever handed
    /// out (one that a Close lowered before was not reached, by the owner's own word).
    peak: BTreeMap<SectionKey, u64>,
    /// Numbers added to a section since the last backup, and changes of a slot's epoch.
    added: BTreeMap<SectionKey, u64>,
    changed: BTreeMap<Slot, u64>,
}

fn section(namespace: NamespaceId, section: u32) -> SectionKey {
    SectionKey {
        namespace,
        section: SectionId(section),
    }
}

impl World {
    fn new() -> World {
        let mut world = World::default();
        let init = Command::Init {
            cluster: ClusterId(1),
            lease_ms: 3_000,
            slots: SLOTS,
        };
        assert_eq!(world.play(init), Reply::Done);
        let spec = Spec {
            progression: Progression {
                start: 10,
                stride: 3,
                offset: 2,
            },
            step: 20,
            ..Spec::new(
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
            limits: world.progression_of(NamespaceId(1)).spec.limits,
        };
        world.play(step);
        let keys = Command::AlterNamespace {
            id: NamespaceId(2),
            step: 20,
            limits: world.progression_of(NamespaceId(2)).spec.limits,
        };
        world.play(keys);
        world
    }

    fn progression_of(&self, id: NamespaceId) -> Namespace {
        self.state.namespace(id).unwrap().clone()
    }

    /// Applies one command and notes what it used.
    fn play(&mut self, command: Command) -> Reply {
        let before = self.state.clone();
        let batch = Batch {
            commands: vec![command],
        };
        let reply = self.state.apply(TERM, &batch, &mut BTreeSet::new());
        for (key, now) in self.state.sections() {
            let progression = self.progression_of(key.namespace).spec.progression;
            let was = before
                .section(*key)
                .map_or(before.unopened(&progression), |s| s.max_seq);
            *self.added.entry(*key).or_default() += progression.count_between(was, now.max_seq);
            let peak = self.peak.entry(*key).or_default();
            *peak = now.max_seq.max(*peak);
        }
        for (i, (was, now)) in before.slots().iter().zip(self.state.slots()).enumerate() {
            *self.changed.entry(Slot(i as u16)).or_default() += now.epoch.0 - was.epoch.0;
        }
        reply.into_iter().next().unwrap()
    }

    fn fence(&self, section: SectionKey) -> Fence {
        let slot = self.state.slot_of(section).unwrap();
        Fence {
            slot,
            epoch: self.state.slots()[usize::from(slot.0)].epoch,
            section,
        }
    }

    fn open(&mut self, key: SectionKey, step: u32) -> Reply {
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

    fn raise(&mut self, key: SectionKey, more: u64) -> Option<Reply> {
        let row = self.state.section(key)?.clone();
        let progression = self.progression_of(key.namespace).spec.progression;
        let to = progression.advance(row.max_seq, more)?;
        Some(self.play(Command::Raise {
            fence: self.fence(key),
            generation: row.generation,
            to,
            cause: Cause::RaiseTo { force: true },
        }))
    }

    fn session(&mut self, name: u8) -> Reply {
        self.nonce += 1;
        self.play(Command::OpenSession(OpenSession {
            name: format!("a{name}"),
            address: "x:1".into(),
            incarnation: 1,
            nonce: Nonce(self.nonce),
            proof: None,
        }))
    }

    fn some_session(&self, pick: u8) -> Option<SessionId> {
        let all: Vec<SessionId> = self.state.sessions().map(|(id, _)| id).collect();
        (!all.is_empty()).then(|| all[usize::from(pick) % all.len()])
    }

    /// Gives every free slot to a session.
    fn assign_all(&mut self) {
        self.session(0);
        let to = self.some_session(0).unwrap();
        for slot in (0..SLOTS as u16).map(Slot) {
            let from = self.state.slots()[usize::from(slot.0)].epoch;
            self.play(Command::Assign { slot, from, to });
        }
    }

    fn step(&mut self, op: Op) {
        let Op { kind, a, b, n } = op;
        let slot = Slot(u16::from(a) % SLOTS as u16);
        let epoch = self.state.slots()[usize::from(slot.0)].epoch;
        let namespace = if b % 2 == 0 { NamespaceId(1) } else { THIRDS };
        let key = section(namespace, u32::from(a) % SECTIONS);
        let row = self.state.section(key).cloned();
        match kind {
            0 => drop(self.session(a % 2)),
            1 => {
                if let Some(session) = self.some_session(b) {
                    self.play(Command::ExpireSession {
                        session,
                        term: TERM,
                    });
                }
            }
            2 => self.assign_all(),
            3 => {
                let finals = row.iter().map(|row| Final {
                    section: key,
                    generation: row.generation,
                    value: row.base + u64::from(n),
                });
                let to = self.some_session(b).filter(|_| n % 3 > 0);
                let slot = self.state.slot_of(key).unwrap();
                self.play(Command::MoveSlot {
                    slot,
                    epoch: if n % 5 == 0 {
                        epoch
                    } else {
                        self.fence(key).epoch
                    },
                    finals: finals.collect(),
                    to,
                });
            }
            4 | 5 => drop(self.open(key, u32::from(n) + 1)),
            6 | 7 => drop(self.raise(key, u64::from(n) + 1)),
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

    fn backed_up(&mut self) -> State {
        self.added.clear();
        self.changed.clear();
        let now = self.state.sections();
        self.peak = now.map(|(key, row)| (*key, row.max_seq)).collect();
        self.state.clone()
    }

    /// Exactly how far it has gone on since `backup`.
    fn gone_on(&self, backup: &State) -> Margins {
        let most = |known: bool| {
            let sections = self.added.iter();
            let of = sections.filter(|(key, _)| backup.section(**key).is_some() == known);
            of.map(|(_, n)| *n).max().unwrap_or(0)
        };
        Margins {
            max_seq: most(true),
            start: most(false),
            epoch: self.changed.values().copied().max().unwrap_or(0),
        }
    }
}

fn at_least(margins: Margins, least: Margins) -> Margins {
    Margins {
        max_seq: margins.max_seq.max(least.max_seq),
        start: margins.start.max(least.start),
        epoch: margins.epoch.max(least.epoch),
    }
}

#[derive(Clone, Copy, Debug)]
struct Op {
    kind: u8,
    a: u8,
    b: u8,
    n: u16,
}

fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = (0u8..9, any::<u8>(), any::<u8>(), 0u16..300);
    let op = op.prop_map(|(kind, a, b, n)| Op { kind, a, b, n });
    proptest::collection::vec(op, 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn nothing_used_before_is_used_again(before in ops(60), after in ops(60), more in ops(60)) {
        let mut old = World::new();
        old.assign_all();
        before.into_iter().for_each(|op| old.step(op));
        let backup = old.backed_up();
        after.into_iter().for_each(|op| old.step(op));
        let margins = at_least(old.gone_on(&backup), backup.least_margins());
        let state = backup.restored(NEW, margins).unwrap();

        prop_assert_eq!(state.cluster().unwrap().id, NEW);
        prop_assert_eq!(state.sessions().count(), 0);
        prop_assert!(state.table_version() > RESTORED.max(old.state.table_version()));
        prop_assert_eq!(State::from_rows(state.rows()).unwrap(), state.clone());
        for (key, row) in state.sections() {
            prop_assert!(!row.open);
            let used = old.state.section(*key).map_or(Generation(0), |s| s.generation);
            prop_assert!(row.generation > used, "{key}");
        }
        for (i, slot) in state.slots().iter().enumerate() {
            prop_assert!(slot.owner.is_none());
            prop_assert!(slot.epoch > old.state.slots()[i].epoch);
        }
        let ended = old.state.cluster().unwrap().next_session;
        prop_assert!(state.cluster().unwrap().next_session > ended);

        // It works, and whatever it opens begins above all that was.
        let mut new = World { state, nonce: 1 << 64, ..World::default() };
        new.assign_all();
        let epochs: Vec<Epoch> = new.state.slots().iter().map(|s| s.epoch).collect();
        for (i, epoch) in epochs.iter().enumerate() {
            prop_assert!(*epoch > old.state.slots()[i].epoch);
        }
        more.into_iter().for_each(|op| new.step(op));
        new.assign_all();
        for namespace in [NamespaceId(1), THIRDS] {
            let progression = new.progression_of(namespace).spec.progression;
            for number in 0..SECTIONS {
                let key = section(namespace, number);
                let Reply::Opened { base, .. } = new.open(key, 1) else {
                    return Err(TestCaseError::fail("it opens"));
                };
                prop_assert_ne!(base, progression.floor(), "`never` would be answered");
                let peak = old.peak.get(&key).copied().unwrap_or(0);
                prop_assert!(progression.first_after(base).unwrap() > peak, "{key}: {base} {peak}");
            }
        }
    }

    #[test]
    fn margins_below_the_least_are_refused(before in ops(60), which in 0..3usize) {
        let mut old = World::new();
        old.assign_all();
        before.into_iter().for_each(|op| old.step(op));
        let least = old.state.least_margins();
        prop_assert!(old.state.restored(NEW, least).is_ok());
        let mut small = least;
        let (margin, value) = [
            (Margin::MaxSeq, &mut small.max_seq),
            (Margin::Start, &mut small.start),
            (Margin::Epoch, &mut small.epoch),
        ].into_iter().nth(which).unwrap();
        prop_assume!(*value > 0);
        *value -= 1;
        let (given, least) = (*value, *value + 1);
        prop_assert_eq!(
            old.state.restored(NEW, small),
            Err(Error::TooSmall { margin, given, least })
        );
    }
}

/// The schedule of the head comment: with the exact margin nothing repeats, with one less it does.
#[test]
fn one_number_less_than_was_added_repeats_one() {
    let mut old = World::new();
    old.assign_all();
    let (known, new) = (section(THIRDS, 0), section(THIRDS, 1));
    old.open(known, 100);
    let backup = old.backed_up();
    old.raise(known, 900).unwrap();
    old.open(new, 700);
    let exact = old.gone_on(&backup);
    assert_eq!((exact.max_seq, exact.start), (900, 700));
    let begins = |margins: Margins, key| {
        let margins = at_least(
            margins,
            Margins {
                epoch: 1,
                ..margins
            },
        );
        let mut world = World {
            state: backup.restored(NEW, margins).unwrap(),
            nonce: 1 << 64,
            ..World::default()
        };
        world.assign_all();
        let Reply::Opened { base, .. } = world.open(key, 1) else {
            panic!("it opens");
        };
        base + 3
    };
    let low = Margins {
        start: 700,
        ..exact
    };
    assert_eq!(begins(low, known), old.peak[&known] + 3);
    let less = Margins {
        max_seq: 899,
        ..exact
    };
    assert_eq!(
        begins(less, known),
        old.peak[&known],
        "handed out before: repeated"
    );
    assert!(begins(exact, new) > old.peak[&new]);
    // One number is left out anyway, so that `never` is not answered: two less.
    let less = Margins {
        start: 698,
        ..exact
    };
    assert!(begins(less, new) <= old.peak[&new], "repeated");
}

#[test]
fn the_end_of_the_range_is_an_end() {
    let mut old = World::new();
    old.assign_all();
    let key = section(NamespaceId(1), 0);
    old.open(key, 1);
    old.raise(key, SEQ_MAX - 10).unwrap();
    let backup = old.backed_up();
    let margins = at_least(
        Margins {
            max_seq: 1_000,
            ..Margins::default()
        },
        backup.least_margins(),
    );
    // What it proves is above what a margin may be: its own window is most of the range.
    assert_eq!(
        backup.restored(NEW, margins),
        Err(Error::TooLarge(Margin::MaxSeq))
    );
    let row = old.state.section(key).unwrap().clone();
    old.play(Command::CloseSection {
        fence: old.fence(key),
        generation: row.generation,
        value: row.max_seq,
    });
    let closed = old.backed_up();
    let least = closed.least_margins();
    let margins = at_least(
        Margins {
            max_seq: 1_000,
            ..least
        },
        least,
    );
    let mut new = World {
        state: closed.restored(NEW, margins).unwrap(),
        ..World::default()
    };
    assert_eq!(new.state.section(key).unwrap().max_seq, SEQ_MAX);
    new.assign_all();
    assert!(matches!(new.open(key, 1), Reply::Refused(_)));
    let far = Margins {
        start: MARGIN_MAX,
        ..margins
    };
    let once = closed.restored(NEW, far).unwrap();
    let mut lifted = once;
    let refused = loop {
        match lifted.restored(NEW, far) {
            Ok(state) => lifted = state,
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, Error::PastEnd(_)), "{refused}");
    assert_eq!(
        State::default().restored(NEW, margins),
        Err(Error::NoCluster)
    );
}
