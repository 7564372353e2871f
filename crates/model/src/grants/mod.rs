//! Ids that carry the time: worker grants, as a second model beside the sequences
//! (`docs/dev/model.md`, "Grants").
//!
//! Invariant: a tick of a lane of a worker is granted to one worker epoch only, before its holder
//! uses it. So no clock and no lease decides whether an id repeats.
//!
//! Schedule that breaks it: a holder has ticks [1, 3) and is paused. A lease that clocks judge is
//! over, and the worker number is given on from the present tick, 2, instead of from 3. The holder
//! wakes, and both make ids of tick 2.
//!
//! Modules, lowest first:
//! - `modeled_family`: the workers and limits; `message`: what holders, leaders and operators
//!   request, and what the store replies.
//! - `replicated_workers` applies commands, `grant_holder` is the memory of a process that makes
//!   ids, `id_ledger` judges the promises.
//! - `grant_world`: the whole state; `grant_situation`: what must be reached.
//! - `grant_scenario`: bounds; `grant_action`: steps; `grant_protocol`: the model.
//!
//! Three choices keep the state small without losing schedules. Leaders are not machines here: a
//! leader that reads the time puts it into the log as a command, so any number of leaders with any
//! clocks, deposed ones included, is the same as any reading at any moment. A paused or crashed
//! holder is one that takes no step; a restarted process is another holder. And every promise about
//! ids is one about two of them, so the ledger records two ids of a run, and all pairs in all runs.

pub(crate) mod grant_action;
pub(crate) mod grant_action_counts;
pub(crate) mod grant_holder;
pub(crate) mod grant_protocol;
pub(crate) mod grant_scenario;
pub(crate) mod grant_situation;
pub(crate) mod grant_world;
pub(crate) mod id_ledger;
pub(crate) mod message;
pub(crate) mod modeled_family;
pub(crate) mod replicated_workers;

/// Ticks that a grant reaches beyond the later of its begin and the store time.
pub(crate) const WINDOW_TICKS: u8 = 2;
/// Ticks that a grant may begin in front of the store time.
pub(crate) const AHEAD_TICKS: u8 = 1;
/// Worker numbers of a family, at most.
pub(crate) const WORKERS_MAX: usize = 2;
/// Lanes of a worker, at most.
pub(crate) const LANES_MAX: usize = 2;
