//! One call for all callers that wait for the same answer.
//!
//! Invariant: an answer comes from a call that began after the request of its caller arrived, so a
//! caller sees what it has just changed. One call is under way at a time, and two begin at least
//! one interval apart, however many callers there are, and whether or not they wait for their
//! answers. Schedule that breaks it: a caller floods a store with status calls. Each confirms the
//! leadership and reads the state, before the next heartbeat or renewal.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until};
use tonic::Status;

/// Maximum callers that wait, each for a copy of the answer; above it they are rejected.
const CALLERS_MAX: usize = 256;
/// Delay after which a rejected caller may retry.
const RETRY_AFTER_MS: u32 = 250;

/// The last call, and what it returned.
struct LastCall<T> {
    /// Number of the call.
    number: u64,
    began: Instant,
    /// None: its caller went away before the answer came.
    answer: Option<Result<T, Status>>,
}

/// Calls of one method without arguments, shared by their callers.
pub struct SharedCall<T> {
    /// Minimum time between the beginnings of two calls.
    interval: Duration,
    permits: Semaphore,
    calls_begun: AtomicU64,
    /// Held during a call.
    last: Mutex<Option<LastCall<T>>>,
}

impl<T: Clone> SharedCall<T> {
    /// Creates it; two calls begin at least `interval` apart.
    pub fn new(interval: Duration) -> SharedCall<T> {
        SharedCall {
            interval,
            permits: Semaphore::new(CALLERS_MAX),
            calls_begun: AtomicU64::new(0),
            last: Mutex::new(None),
        }
    }

    /// Makes the call, or waits for one that began after now.
    ///
    /// # Errors
    /// Those of the call; RESOURCE_EXHAUSTED with a retry hint if too many callers wait.
    pub async fn call(&self, send: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let _permit = self.permits.try_acquire().map_err(|_| {
            let text = format!(
                "too many callers wait for this status: at most {CALLERS_MAX} at one server; retry later"
            );
            RpcError::new(Reason::Overloaded, text).with_retry_after_ms(RETRY_AFTER_MS)
        })?;
        let begun_before = self.calls_begun.load(Relaxed);
        let mut last = self.last.lock().await;
        if let Some(call) = &*last {
            match &call.answer {
                Some(answer) if call.number > begun_before => return answer.clone(),
                _ => sleep_until(call.began + self.interval).await,
            }
        }
        let number = self.calls_begun.fetch_add(1, Relaxed) + 1;
        let call = last.insert(LastCall {
            number,
            began: Instant::now(),
            answer: None,
        });
        let answer = send.await;
        call.answer = Some(answer.clone());
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const CALL_INTERVAL: Duration = Duration::from_millis(250);

    type Shared = Arc<SharedCall<u64>>;

    /// Starts a caller; each call answers with its number, after 10 ms.
    fn start_caller(shared: &Shared, calls: &Arc<AtomicU64>) -> tokio::task::JoinHandle<u64> {
        let (shared, calls) = (shared.clone(), calls.clone());
        tokio::spawn(async move {
            let send = async {
                let number = calls.fetch_add(1, Relaxed) + 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(number)
            };
            shared.call(send).await.unwrap()
        })
    }

    /// Schedule: callers arrive while a call is under way, whose answer may be older than what they
    /// have just changed.
    #[tokio::test(start_paused = true)]
    async fn callers_share_a_call_that_began_after_them() {
        let (shared, calls) = (Shared::new(SharedCall::new(CALL_INTERVAL)), Arc::default());
        let began = Instant::now();
        let first = start_caller(&shared, &calls);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let later: Vec<_> = (0..100).map(|_| start_caller(&shared, &calls)).collect();
        assert_eq!(first.await.unwrap(), 1);
        for caller in later {
            assert_eq!(caller.await.unwrap(), 2, "not the call under way");
        }
        assert_eq!(began.elapsed(), CALL_INTERVAL + Duration::from_millis(10));
        tokio::time::sleep(CALL_INTERVAL).await;
        let began = Instant::now();
        assert_eq!(start_caller(&shared, &calls).await.unwrap(), 3);
        assert_eq!(began.elapsed(), Duration::from_millis(10), "no wait");
    }

    /// Schedule: callers go away before their answer comes, again and again.
    #[tokio::test(start_paused = true)]
    async fn abandoned_calls_keep_their_distance() {
        let (shared, calls) = (Shared::new(SharedCall::new(CALL_INTERVAL)), Arc::default());
        let began = Instant::now();
        while began.elapsed() < 10 * CALL_INTERVAL {
            let caller = start_caller(&shared, &calls);
            tokio::time::sleep(Duration::from_millis(1)).await;
            caller.abort();
            assert!(caller.await.is_err());
        }
        assert_eq!(calls.load(Relaxed), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_callers_are_bounded() {
        let (shared, calls) = (Shared::new(SharedCall::new(CALL_INTERVAL)), Arc::default());
        let waiting: Vec<_> = (0..CALLERS_MAX)
            .map(|_| start_caller(&shared, &calls))
            .collect();
        while shared.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = shared.call(std::future::ready(Ok(0))).await.unwrap_err();
        let refused = RpcError::from_status(&refused);
        assert_eq!(refused.reason(), Reason::Overloaded);
        assert!(refused.detail.retry_after_ms > 0, "no hint: {refused}");
        for caller in waiting {
            caller.await.unwrap();
        }
    }
}
