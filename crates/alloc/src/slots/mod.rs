//! Slots that leave this AllocSvr: planned moves and the end of the session.

pub(crate) mod close_session;
pub(crate) mod slot_move_tracker;
pub(crate) mod slot_mover;
