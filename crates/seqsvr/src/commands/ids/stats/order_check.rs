//! The order in which ids occur.

use std::fmt;

/// Counts ids that are smaller than one before.
#[derive(Default)]
pub(super) struct OrderCheck {
    greatest: u128,
    latest_ms: u64,
    out_of_order: u64,
    /// Greatest distance in time from the latest id before; None if times are not known.
    behind_ms: Option<u64>,
}

impl OrderCheck {
    /// Adds the next id. `is_falling` says that later ids are smaller by design.
    pub(super) fn add(&mut self, id: u128, is_falling: bool, time_ms: Option<u64>) {
        let rank = if is_falling { !id } else { id };
        self.out_of_order += u64::from(rank < self.greatest);
        self.greatest = self.greatest.max(rank);
        if let Some(time_ms) = time_ms {
            self.latest_ms = self.latest_ms.max(time_ms);
            self.behind_ms = self.behind_ms.max(Some(self.latest_ms - time_ms));
        }
    }
}

impl fmt::Display for OrderCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.out_of_order)?;
        if let (1.., Some(ms)) = (self.out_of_order, self.behind_ms) {
            let seconds = ms as f64 / 1_000.0;
            write!(f, ", at most {seconds:.3} s behind one before")?;
        }
        Ok(())
    }
}
