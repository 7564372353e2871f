//! What one call may still spend: its deadline, its pauses, and the record of what it tried.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tonic::Code;

use crate::error::{ASKED_MAX, Details, Error};
use crate::failure::{Failure, Verdict};
use crate::pipe::Patience;
use crate::servers::Servers;
use crate::trouble::{Trouble, Waiting};

/// Upper limit of one try, which also takes at most a quarter of the call's time, so that a silent
/// server leaves time for others.
const TRY_MAX: Duration = Duration::from_secs(1);
/// Lower limit of one try: a busy server needs some time.
const TRY_MIN: Duration = Duration::from_millis(50);
/// Time left below which a try would only replace the last reason by "no answer".
const LAST_TRY: Duration = Duration::from_millis(10);
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Retries without a pause, after a new route; more in one call means that the table is unstable.
const AT_ONCE_MAX: u32 = 8;

#[derive(Clone)]
pub(crate) struct Budget {
    total: Duration,
    try_max: Duration,
    begin: Instant,
    tries: u32,
    asked: Vec<String>,
    pause: Duration,
    at_once: u32,
    /// Tables fetched only because a namespace was not in ours.
    pub(crate) namespace_lookups: u32,
    waiting: Option<Arc<Waiting>>,
}

impl Budget {
    pub(crate) fn new(total: Duration) -> Budget {
        Budget {
            total,
            try_max: (total / 4).clamp(TRY_MIN, TRY_MAX),
            begin: Instant::now(),
            tries: 0,
            asked: Vec::new(),
            pause: PAUSE_FIRST,
            at_once: 0,
            namespace_lookups: 0,
            waiting: None,
        }
    }

    /// Returns a budget for a call whose answer may take as long as the call has time.
    pub(crate) fn of_one_try(total: Duration) -> Budget {
        Budget {
            try_max: total,
            ..Budget::new(total)
        }
    }

    /// Returns the time left for the call.
    pub(crate) fn left(&self) -> Duration {
        self.total.saturating_sub(self.begin.elapsed())
    }

    /// Returns how long the first try may take, which begins with the call.
    pub(crate) fn first_patience(&self) -> Patience {
        self.patience_from(self.begin, self.total)
    }

    /// Returns how long a try that begins then may take.
    pub(crate) fn patience(&self, begin: Instant) -> Patience {
        self.patience_from(begin, self.total.saturating_sub(begin - self.begin))
    }

    fn patience_from(&self, begin: Instant, left: Duration) -> Patience {
        let time = left.min(self.try_max).max(Duration::from_millis(1));
        Patience {
            until: begin + time,
            time,
        }
    }

    /// Returns how long one try may take.
    pub(crate) fn try_time(&self) -> Duration {
        self.patience(Instant::now()).time
    }

    /// Counts a request to the owner, whose address is noted if the request fails.
    pub(crate) fn tried(&mut self) {
        self.tries += 1;
    }

    /// Counts a request and notes its address.
    pub(crate) fn asks(&mut self, address: &str) {
        self.tried();
        self.note(address);
    }

    /// Notes an address to which a request was sent.
    pub(crate) fn note(&mut self, address: &str) {
        if self.asked.len() < ASKED_MAX && !self.asked.iter().any(|a| a == address) {
            self.asked.push(address.to_owned());
        }
    }

    /// Returns how long to wait before the next try, or the error to end with.
    pub(crate) fn pause(
        &mut self,
        failure: &Failure,
        servers: &Servers,
        trouble: &Trouble,
    ) -> Result<Duration, Error> {
        let pause = match failure.verdict {
            Verdict::Final => return Err(self.error(failure, false)),
            // Not earlier than the server requested, and not together with all other callers that
            // it rejected.
            Verdict::After(hint) => hint + self.back_off(servers),
            Verdict::Retry if failure.rerouted && self.at_once < AT_ONCE_MAX => {
                self.at_once += 1;
                Duration::ZERO
            }
            Verdict::Retry => self.back_off(servers),
        };
        if pause + LAST_TRY > self.left() {
            return Err(self.error(failure, true));
        }
        if !pause.is_zero() {
            let waiting = || Arc::new(trouble.begin());
            self.waiting
                .get_or_insert_with(waiting)
                .tell(&failure.message);
        }
        Ok(pause)
    }

    /// Returns a pause twice as long as the last one, jittered and bounded.
    fn back_off(&mut self, servers: &Servers) -> Duration {
        let pause = servers.jitter(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        pause
    }

    /// Returns the error to end with.
    pub(crate) fn error(&self, failure: &Failure, out_of_time: bool) -> Error {
        Error::from(Details {
            code: if out_of_time {
                Code::DeadlineExceeded
            } else {
                failure.code
            },
            reason: failure.reason,
            message: failure.message.clone(),
            tries: self.tries,
            asked: self.asked.clone(),
            gave_up_after: out_of_time.then(|| self.begin.elapsed()),
        })
    }
}
