//! Ground floor of calls: the time of one attempt, its failure, whether another one can help, and
//! what a call waits for in between.

pub(crate) mod attempt_deadline;
pub(crate) mod attempt_error;
pub(crate) mod retry_decision;
pub(crate) mod wait_status;
