//! Session commands.
//!
//! Invariant: at most one living session per name. A session that ended never lives again (ids and
//! nonces are not reused). From the same entry on, its slots are free or belong to another session.

use std::collections::BTreeSet;

use super::apply::CommandOutcome;
use super::{RowKey, SessionRow, State};
use crate::command::{
    ADDRESS_MAX, CommandRejection, HIGH_WATER_MARKS_MAX, OpenSession, Reply, SESSIONS_MAX,
    SlotHighWaterMark,
};
use crate::ids::{SessionId, Slot};
use crate::namespace::validate_name;

impl State {
    pub(super) fn open_session(
        &mut self,
        open: &OpenSession,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        validate_name("AllocSvr", &open.name).map_err(CommandRejection::Invalid)?;
        if open.address.is_empty() || open.address.len() > ADDRESS_MAX {
            return Err(CommandRejection::Invalid(format!(
                "an AllocSvr's address has 1 to {ADDRESS_MAX} bytes"
            )));
        }
        let holder = self
            .find_session(&open.name)
            .map(|(id, s)| (id, s.nonce, s.address.clone()));
        if let Some((id, nonce, address)) = &holder {
            if *nonce == open.nonce {
                return Ok(Reply::Session(*id));
            }
            // Fast restart: only a process that has the living session's own nonce may take its
            // place.
            if !open
                .proof
                .is_some_and(|p| p.session == *id && p.nonce == *nonce)
            {
                crate::reached!("state: a name was taken");
                return Err(CommandRejection::NameTaken {
                    name: open.name.clone(),
                    session: *id,
                    address: address.clone(),
                });
            }
        } else if self.sessions.len() >= SESSIONS_MAX {
            return Err(CommandRejection::TooManySessions);
        }
        let cluster = self
            .cluster
            .as_mut()
            .ok_or(CommandRejection::NotInitialized)?;
        let id = SessionId(cluster.next_session);
        cluster.next_session += 1;
        touched.insert(RowKey::Cluster);
        let session = SessionRow {
            name: open.name.clone(),
            address: open.address.clone(),
            incarnation: open.incarnation,
            nonce: open.nonce,
        };
        self.sessions.insert(id, session);
        touched.insert(RowKey::Session(id));
        if let Some((old, ..)) = holder {
            crate::reached!("state: a session took the place of its own earlier one");
            for slot in self.slots_of(old) {
                self.give_slot(slot, Some(id), touched);
            }
            self.sessions.remove(&old);
            touched.insert(RowKey::Session(old));
        }
        Ok(Reply::Session(id))
    }

    pub(super) fn close_session(
        &mut self,
        session: SessionId,
        high_water_marks: &[SlotHighWaterMark],
        last: bool,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        if high_water_marks.len() > HIGH_WATER_MARKS_MAX {
            return Err(CommandRejection::Invalid(format!(
                "a chunk carries at most {HIGH_WATER_MARKS_MAX} high-water marks"
            )));
        }
        for f in high_water_marks {
            let owned = self
                .slots
                .get(usize::from(f.slot.0))
                .is_some_and(|row| row.owner == Some(session) && row.epoch == f.epoch);
            if owned {
                self.apply_high_water_mark(f.slot, &f.mark, touched);
            }
        }
        if last {
            self.end_session(session, touched)
        } else {
            Ok(Reply::Done)
        }
    }

    /// Ends a session and frees its slots; a session that is already gone counts as ended.
    pub(super) fn end_session(
        &mut self,
        session: SessionId,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        for slot in self.slots_of(session) {
            self.give_slot(slot, None, touched);
        }
        if self.sessions.remove(&session).is_some() {
            touched.insert(RowKey::Session(session));
        }
        Ok(Reply::Done)
    }

    /// Returns the slots that a session owns.
    pub fn slots_of(&self, session: SessionId) -> Vec<Slot> {
        let owned = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, row)| row.owner == Some(session));
        owned.map(|(i, _)| Slot(i as u16)).collect()
    }
}
