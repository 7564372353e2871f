//! A state with one family of each kind, all commands that were sent to it, and its ledger.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seqsvr_core::command::{Batch, Command, CommandRejection, Reply};
use seqsvr_core::family::{
    AcquireWorker, FamilyChange, FamilyLimits, FamilySpec, IdsCommand, IdsRejection,
    IdsRejectionCause, WorkerGrant,
};
use seqsvr_core::ids::{ClusterId, FamilyId, Nonce, WorkerEpoch, WorkerId, WorkerKey};
use seqsvr_core::layout::TickScale;
use seqsvr_core::state::{RowKey, State, TimeRow};

use crate::ledger::{GrantBounds, GrantLedger};
use crate::ops::{IdOp, TimeJump};

/// Each has few workers, and ticks of 100 ms from the epoch of Unix on.
pub(crate) const FAMILIES: [FamilyId; 5] = [PLAIN, TIMELINES, ROLLBACKS, STICKY, NEVER];
pub(crate) const PLAIN: FamilyId = FamilyId(1);
const TIMELINES: FamilyId = FamilyId(2);
const ROLLBACKS: FamilyId = FamilyId(3);
pub(crate) const STICKY: FamilyId = FamilyId(4);
const NEVER: FamilyId = FamilyId(5);

const UNIT_MS: u64 = 100;
/// All layouts have 20 bits of time.
const END_MS: u64 = (1 << 20) * UNIT_MS;
const LIMITS: FamilyLimits = FamilyLimits {
    window_ms: 1_000,
    window_max_ms: 2_000,
    ahead_ms: 500,
    workers_per_holder: 2,
    ..FamilyLimits::DEFAULT
};

pub(crate) struct IdWorld {
    pub(crate) state: State,
    pub(crate) ledger: GrantLedger,
    log: Vec<IdsCommand>,
    /// Grants, in the order of their first replies.
    grants: Vec<WorkerGrant>,
    nonce: u128,
}

impl IdWorld {
    pub(crate) fn new() -> IdWorld {
        let mut world = IdWorld {
            state: State::default(),
            ledger: GrantLedger::default(),
            log: Vec::new(),
            grants: Vec::new(),
            nonce: 0,
        };
        let init = Command::Init {
            cluster: ClusterId(7),
            lease_ms: 3_000,
            slots: 1,
        };
        for command in [init, Command::SetLevel { level: 3 }] {
            assert_eq!(world.apply(command).0, Reply::Done);
        }
        let spec = |name, layout: &str| {
            let scale = TickScale::new(0, UNIT_MS).unwrap();
            FamilySpec::new(name, layout.parse().unwrap(), scale)
        };
        let with_reserve = FamilySpec {
            reserved: vec![(WorkerId(1), WorkerId(1))],
            ..spec("plain", "0:1,time:20,worker:2,seq:2")
        };
        let once = FamilySpec {
            lanes_once: true,
            ..spec("rollbacks", "0:1,time:20,lane:1,worker:1,seq:2")
        };
        let sticky = FamilySpec {
            sticky: true,
            ..spec("sticky", "0:1,time:20,worker:2,seq:2")
        };
        let never = FamilySpec {
            reuse_never: true,
            ..spec("never", "0:1,time:20,worker:3,seq:2")
        };
        let timelines = spec("timelines", "0:1,time:20,lane:2,worker:1,seq:2");
        let specs = [with_reserve, timelines, once, sticky, never];
        for (spec, id) in specs.into_iter().zip(FAMILIES) {
            let create = IdsCommand::CreateFamily {
                spec,
                limits: LIMITS,
            };
            assert_eq!(world.play(create).unwrap(), Reply::Family(id));
        }
        world.advance(20_000).unwrap();
        world
    }

    pub(crate) fn limits(&self, family: FamilyId) -> FamilyLimits {
        self.state.family(family).unwrap().family.limits
    }

    fn apply(&mut self, command: Command) -> (Reply, BTreeSet<RowKey>) {
        let mut touched = BTreeSet::new();
        let commands = vec![command];
        let mut replies = self.state.apply(1, &Batch { commands }, &mut touched);
        (replies.pop().unwrap(), touched)
    }

    /// Applies a command, has it judged, and applies it once more: a retry finds everything done.
    pub(crate) fn play(&mut self, command: IdsCommand) -> Result<Reply, TestCaseError> {
        let before = self.state.clone();
        let (reply, touched) = self.apply(Command::Ids(command.clone()));
        self.judge(&command, &reply, &before)
            .map_err(TestCaseError::fail)?;
        let keys = before.rows().chain(self.state.rows()).map(|(key, _)| key);
        let changed = keys.filter(|key| before.row(*key) != self.state.row(*key));
        prop_assert_eq!(&touched, &changed.collect(), "{:?}", command);
        prop_assert_eq!(self.state.rows_len(), self.state.rows().count() as u64);

        let done = self.state.clone();
        let (retry, touched) = self.apply(Command::Ids(command.clone()));
        // These end what their own fence names; all others answer as before.
        let is_fenced = matches!(
            command,
            IdsCommand::ReleaseWorker { .. }
                | IdsCommand::RevokeWorker { .. }
                | IdsCommand::SetTime { .. }
        );
        // The first renewal reached the end of the layout.
        let exhausted = matches!(
            (&command, &retry),
            (
                IdsCommand::RenewWorker { .. },
                Reply::Rejected(CommandRejection::Ids(IdsRejection {
                    cause: IdsRejectionCause::TimeExhausted,
                    ..
                }))
            )
        );
        let ended = exhausted || is_fenced && matches!(retry, Reply::Rejected(_));
        let same = retry == reply || ended;
        prop_assert!(same, "{:?}: first {:?}, then {:?}", command, reply, retry);
        prop_assert!(
            touched.is_empty(),
            "a retry of {:?} touched {:?}",
            command,
            touched
        );
        prop_assert_eq!(
            &self.state,
            &done,
            "a retry of {:?} changed something",
            command
        );
        self.log.push(command);
        Ok(reply)
    }

    fn judge(&mut self, command: &IdsCommand, reply: &Reply, before: &State) -> Result<(), String> {
        let (old, new) = (before.store_time(), self.state.store_time());
        let time_may_fall = matches!(command, IdsCommand::SetTime { .. });
        if !time_may_fall && (new.high_ms < old.high_ms || new.resets != old.resets) {
            return Err(format!("store time fell from {old:?} to {new:?}"));
        }
        if matches!(reply, Reply::Rejected(_)) && self.state != *before {
            return Err(format!("{reply:?} changed something"));
        }
        match (command, reply) {
            (_, Reply::Grant(grant)) => {
                let known = self
                    .grants
                    .iter_mut()
                    .find(|known| (known.worker, known.epoch) == (grant.worker, grant.epoch));
                match known {
                    Some(known) => *known = *grant,
                    None => self.grants.push(*grant),
                }
                let (IdsCommand::AcquireWorker(AcquireWorker { window_ms, .. })
                | IdsCommand::RenewWorker { window_ms, .. }) = command
                else {
                    return Err(format!("{command:?} granted {grant:?}"));
                };
                let bounds = bounds_of(before, grant.worker.family, *window_ms);
                self.ledger.note_grant(grant, &bounds)
            }
            (
                IdsCommand::ReleaseWorker {
                    worker,
                    epoch,
                    used,
                    ..
                },
                Reply::Done,
            ) => {
                self.ledger.close(*worker, *epoch, Some(*used));
                Ok(())
            }
            (IdsCommand::RevokeWorker { worker, epoch }, Reply::Done) => {
                self.ledger.close(*worker, *epoch, None);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn restart(&mut self) -> Result<(), TestCaseError> {
        let rebuilt = State::from_rows(self.state.rows()).unwrap();
        prop_assert_eq!(&rebuilt, &self.state);
        self.state = rebuilt;
        Ok(())
    }

    pub(crate) fn acquire(
        &mut self,
        family: FamilyId,
        holder: u8,
        claim: Option<u32>,
        window_ms: u32,
    ) -> Result<Reply, TestCaseError> {
        self.nonce += 1;
        self.play(IdsCommand::AcquireWorker(AcquireWorker {
            family,
            holder: format!("h{holder}"),
            nonce: Nonce(self.nonce),
            worker: claim.map(WorkerId),
            window_ms,
        }))
    }

    /// Returns the nonce of the last acquisition of a worker.
    pub(crate) fn nonce_of(&self, worker: WorkerKey) -> Nonce {
        self.state.worker(worker).map_or(Nonce(1), |row| row.nonce)
    }

    pub(crate) fn advance(&mut self, by_ms: u64) -> Result<Reply, TestCaseError> {
        let TimeRow {
            high_ms, resets, ..
        } = self.state.store_time();
        self.play(IdsCommand::AdvanceTime {
            now_ms: high_ms + by_ms,
            resets,
        })
    }

    /// Plays an op. Returns None if it is no command.
    pub(crate) fn play_op(&mut self, op: IdOp) -> Result<Option<Reply>, TestCaseError> {
        let time = self.state.store_time();
        let grant = |index: proptest::sample::Index| {
            let known = (!self.grants.is_empty()).then(|| *index.get(&self.grants));
            known.unwrap_or(WorkerGrant {
                worker: WorkerKey {
                    family: PLAIN,
                    worker: WorkerId(0),
                },
                epoch: WorkerEpoch(0),
                lane: 0,
                from: 0,
                until: 0,
                high_ms: 0,
            })
        };
        let near = |epoch: WorkerEpoch, by: i8| WorkerEpoch(near_number(epoch.0, by));
        let command = match op {
            IdOp::Acquire {
                family,
                holder,
                claim,
                window_ms,
            } => {
                return self
                    .acquire(FAMILIES[family], holder, claim, window_ms)
                    .map(Some);
            }
            IdOp::Renew {
                grant: index,
                epoch,
                window_ms,
            } => {
                let grant = grant(index);
                let epoch = near(grant.epoch, epoch);
                IdsCommand::RenewWorker {
                    worker: grant.worker,
                    epoch,
                    window_ms,
                    nonce: self.nonce_of(grant.worker),
                }
            }
            IdOp::Release {
                grant: index,
                epoch,
                used,
            } => {
                let grant = grant(index);
                IdsCommand::ReleaseWorker {
                    worker: grant.worker,
                    epoch: near(grant.epoch, epoch),
                    used: (grant.from + used).saturating_sub(2),
                    nonce: self.nonce_of(grant.worker),
                }
            }
            IdOp::Revoke {
                grant: index,
                epoch,
            } => {
                let grant = grant(index);
                let epoch = near(grant.epoch, epoch);
                IdsCommand::RevokeWorker {
                    worker: grant.worker,
                    epoch,
                }
            }
            IdOp::Raise { family, by, force } => IdsCommand::RaiseFamily {
                id: FAMILIES[family],
                floor: time.high_ms / UNIT_MS + by,
                force,
            },
            IdOp::Freeze { family, frozen } => IdsCommand::AlterFamily {
                id: FAMILIES[family],
                change: FamilyChange {
                    frozen: Some(frozen),
                    ..FamilyChange::default()
                },
            },
            IdOp::Advance { by_ms, resets } => IdsCommand::AdvanceTime {
                now_ms: time.high_ms + by_ms,
                resets: near_number(time.resets, resets),
            },
            IdOp::SetTime { to, resets } => IdsCommand::SetTime {
                now_ms: match to {
                    TimeJump::Back(by_ms) => time.high_ms.saturating_sub(by_ms),
                    TimeJump::Forward(by_ms) => time.high_ms + by_ms,
                    TimeJump::End(before_ms) => END_MS - before_ms,
                },
                resets: near_number(time.resets, resets),
            },
            IdOp::Again { which } if !self.log.is_empty() => which.get(&self.log).clone(),
            IdOp::Again { .. } => return Ok(None),
            IdOp::Restart => return self.restart().map(|()| None),
        };
        self.play(command).map(Some)
    }
}

fn near_number(number: u64, by: i8) -> u64 {
    number.saturating_add_signed(i64::from(by))
}

/// Returns the bounds of a grant of a family, by its limits alone.
fn bounds_of(state: &State, family: FamilyId, window_ms: u32) -> GrantBounds {
    let row = state.family(family).unwrap();
    let limits = row.family.limits;
    let window_ms = match window_ms {
        0 => limits.window_ms,
        ms => ms.min(limits.window_max_ms),
    };
    let window = (u64::from(window_ms) / UNIT_MS).max(2);
    GrantBounds {
        now: state.store_time().high_ms / UNIT_MS,
        floor: row.floor,
        reach: u64::from(limits.ahead_ms) / UNIT_MS + window,
        end: END_MS / UNIT_MS,
        is_once: family == NEVER,
        lanes_rise: family == ROLLBACKS,
    }
}
