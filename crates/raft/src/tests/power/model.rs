//! Model of the power-cut test: what it writes, and so what must be there after a cut.

use std::collections::BTreeSet;

use openraft::storage::{RaftLogReader, RaftStateMachine};
use seqsvr_core::command::OpenSession;
use seqsvr_core::ids::{ClusterId, Nonce, SessionId};
use seqsvr_core::state::State;

use crate::tests::*;

/// Sessions alive at a time in the model's state.
const ALIVE: u64 = 60;

/// Returns entry `index` of term `term`: sessions come and go, so rows appear, change and vanish.
pub(crate) fn workload_entry(term: u64, index: u64) -> Entry {
    if index == 0 {
        return entry(
            term,
            0,
            vec![Command::Init {
                cluster: ClusterId(1),
                lease_ms: 3_000,
                slots: 256,
            }],
        );
    }
    let mut commands = Vec::new();
    for i in 0..6 {
        let id = index * 6 + i;
        commands.push(Command::OpenSession(OpenSession {
            name: format!("n{}", id % (2 * ALIVE)),
            address: format!("host-{term}-{id}:7700"),
            incarnation: id,
            nonce: Nonce(u128::from(id)),
            proof: None,
        }));
        commands.push(Command::ExpireSession {
            session: SessionId(id.saturating_sub(ALIVE)),
            term,
        });
        commands.push(Command::Assign {
            slot: seqsvr_core::ids::Slot((id % 256) as u16),
            from: seqsvr_core::ids::Epoch(id / 256),
            to: SessionId(id.saturating_sub(ALIVE / 2)),
        });
    }
    entry(term, index, commands)
}

/// Expected content of the disk after a cut.
#[derive(Default)]
pub(crate) struct ExpectedDisk {
    /// Term of each entry that was acknowledged, and perhaps of a few that were not.
    terms: Vec<u64>,
    pub(crate) acked: u64,
    vote: u64,
    pub(crate) votes: u64,
    pub(crate) snapshots: u64,
}

impl ExpectedDisk {
    pub(crate) fn record_line(&mut self, line: &str) {
        let mut words = line.split(' ');
        let word = words.next().unwrap();
        let numbers: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
        match (word, &numbers[..]) {
            ("voted", [term]) => {
                self.vote = *term;
                self.votes += 1;
            }
            ("acked", [from, upto, term]) => {
                self.terms.truncate(*from as usize);
                self.terms.resize(*upto as usize, *term);
                self.acked = *upto;
            }
            // From here on the tail may be there or not.
            ("cutting", [keep]) => self.acked = *keep,
            ("purging", []) => self.snapshots += 1,
            _ => {}
        }
    }

    /// Compares the disk with the acknowledged entries; takes over the entries behind them.
    pub(crate) async fn check(&mut self, storage: &mut Storage) -> Result<(), String> {
        let log = &mut storage.log;
        let vote = log.read_vote().await.map_err(|e| e.to_string())?;
        let vote = vote.map_or(0, |v| v.leader_id.term);
        if vote < self.vote {
            return Err(format!("vote of term {} lost, found {vote}", self.vote));
        }
        let state = log.get_log_state().await.map_err(|e| e.to_string())?;
        let end = state.last_log_id.map_or(0, |id| id.index + 1);
        if end < self.acked {
            return Err(format!(
                "log ends at {end}, acknowledged up to {}",
                self.acked
            ));
        }
        let begin = state.last_purged_log_id.map_or(0, |id| id.index + 1);
        for index in begin..end {
            let found = log.try_get_log_entries(index..index + 1).await;
            let found = found.map_err(|e| e.to_string())?.pop();
            let found = found.ok_or_else(|| format!("no entry {index}"))?;
            let term = found.log_id.leader_id.term;
            if found != workload_entry(term, index) {
                return Err(format!("entry {index} is not what was written"));
            }
            if index < self.acked && self.terms[index as usize] != term {
                return Err(format!(
                    "entry {index}: term {} was acknowledged, found {term}",
                    self.terms[index as usize]
                ));
            }
            if index >= self.acked {
                self.terms.truncate(index as usize);
                self.terms.push(term);
            }
        }
        self.terms.truncate(end as usize);
        (self.acked, self.vote) = (end, vote);
        let (applied, _) = storage
            .machine
            .applied_state()
            .await
            .map_err(|e| e.to_string())?;
        let upto = applied.map_or(0, |id| id.index + 1);
        let mut expected = State::default();
        for (index, term) in self.terms.iter().enumerate().take(upto as usize) {
            if let EntryPayload::Normal(p) = workload_entry(*term, index as u64).payload {
                expected.apply(*term, &p.0, &mut BTreeSet::new());
            }
        }
        if storage.machine.shared_state().applied.read().state != expected {
            return Err(format!("the state at {upto} is not what the log makes"));
        }
        Ok(())
    }
}
