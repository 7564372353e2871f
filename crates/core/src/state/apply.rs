//! `State::apply`: one batch, one reply per command. Deterministic; every replica runs it.

use std::collections::BTreeSet;

use super::{ClusterRow, RowKey, SlotRow, State};
use crate::command::{Batch, Command, CommandRejection, Reply};
use crate::geometry::SLOTS_MAX;
use crate::ids::{ClusterId, Slot};
use crate::namespace::NamespaceSpec;

/// Outcome of one command inside the state.
pub(super) type CommandOutcome = Result<Reply, CommandRejection>;

/// Bounds of the lease D, in milliseconds.
pub(super) const LEASE_MS: std::ops::RangeInclusive<u32> = 300..=60_000;

impl State {
    /// Applies the batch of a log entry whose term is `term`. Adds every row it changed (or
    /// removed) to `touched`.
    pub fn apply(
        &mut self,
        term: u64,
        batch: &Batch,
        touched: &mut BTreeSet<RowKey>,
    ) -> Vec<Reply> {
        batch
            .commands
            .iter()
            .map(|c| {
                self.apply_one(term, c, touched)
                    .unwrap_or_else(Reply::Rejected)
            })
            .collect()
    }

    fn apply_one(
        &mut self,
        term: u64,
        command: &Command,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        if let Command::Init {
            cluster,
            lease_ms,
            slots,
        } = command
        {
            return self.apply_init(*cluster, *lease_ms, *slots, touched);
        }
        if self.cluster.is_none() {
            return Err(CommandRejection::NotInitialized);
        }
        match command {
            Command::Init { .. } => unreachable!("handled above"),
            Command::OpenSession(open) => self.open_session(open, touched),
            Command::CloseSession {
                session,
                high_water_marks,
                last,
            } => self.close_session(*session, high_water_marks, *last, touched),
            Command::ExpireSession {
                session,
                term: decided,
            } => {
                // Rule: an arbiter deposed after deciding must not expire a session that a newer
                // leader has renewed since. Its entry would carry a newer term than the decision.
                if *decided == term || crate::planted!(ExpireAnyTerm) {
                    self.end_session(*session, touched)
                } else {
                    crate::reached!("state: an expiry of another term had no effect");
                    Ok(Reply::Done)
                }
            }
            Command::Assign { slot, from, to } => self.assign(*slot, *from, *to, touched),
            Command::Open {
                fence,
                expected,
                nonce,
                step,
            } => self.open(fence, *expected, *nonce, *step, touched),
            Command::Raise {
                fence,
                generation,
                to,
                cause,
            } => self.raise(fence, *generation, *to, *cause, touched),
            Command::CloseSection {
                fence,
                generation,
                value,
            } => self.close_section(fence, *generation, *value, touched),
            Command::MoveSlot {
                slot,
                epoch,
                high_water_marks,
                to,
            } => self.move_slot(*slot, *epoch, high_water_marks, *to, touched),
            Command::CreateNamespace(spec) => self.create_namespace(spec, touched),
            Command::AlterNamespace { id, step, limits } => {
                self.alter_namespace(*id, *step, *limits, touched)
            }
            Command::ChangeNamespace { id, change } => self.change_namespace(*id, change, touched),
            Command::SetLevel { level } => self.set_format_level(*level, touched),
            Command::Ids(command) => self.apply_ids(command, touched),
        }
    }

    fn apply_init(
        &mut self,
        id: ClusterId,
        lease_ms: u32,
        slots: u32,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        if let Some(cluster) = &self.cluster {
            return if cluster.id == id {
                Ok(Reply::Done)
            } else {
                Err(CommandRejection::AlreadyInitialized(cluster.id))
            };
        }
        if !LEASE_MS.contains(&lease_ms) {
            return Err(CommandRejection::Invalid(format!(
                "the lease must be 300 to 60000 ms, not {lease_ms}"
            )));
        }
        if slots == 0 || slots > SLOTS_MAX {
            return Err(CommandRejection::Invalid(format!(
                "a cluster has 1 to {SLOTS_MAX} slots, not {slots}"
            )));
        }
        self.cluster = Some(ClusterRow {
            id,
            lease_ms,
            slots,
            table_version: 1,
            next_session: 1,
            next_namespace: 1,
        });
        self.slots = vec![
            SlotRow {
                version: 1,
                ..SlotRow::default()
            };
            slots as usize
        ];
        touched.insert(RowKey::Cluster);
        touched.extend((0..slots).map(|i| RowKey::Slot(Slot(i as u16))));
        for spec in [
            NamespaceSpec::default_dense(),
            NamespaceSpec::default_keyed(),
        ] {
            self.create_namespace(&spec, touched)?;
        }
        Ok(Reply::Done)
    }

    /// Returns the next version of the routing table, for a change that clients can see.
    pub(super) fn bump_version(&mut self, touched: &mut BTreeSet<RowKey>) -> u64 {
        touched.insert(RowKey::Cluster);
        self.cluster.as_mut().map_or(0, |c| {
            c.table_version += 1;
            c.table_version
        })
    }
}
